"""What is said of a class that was recognised."""

import pytest

from headcheck.properties.binding.describe import (
    describe_attention,
    describe_intent,
    list_assumptions,
)
from headcheck.properties.contracts.contract import CONSTANT, Argument, Capability, Contract
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.terms.call_form import CallForm, MaskConvention, Polarity, TokenAxes

C = Capability
PLAIN = frozenset({C.FULL, C.BATCH})
OWN = Signature("Own", (), ())


def contract(*more: C, inputs: tuple[str, ...] = ("x",), **others: object) -> Contract:
    form = CallForm(inputs)
    return Contract(name="Own", call_form=form, capabilities=PLAIN | set(more), **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("described", "said"),
    [
        (contract(), "self-attention"),
        (contract(C.CAUSAL), "causal self-attention"),
        (contract(C.HEADS, C.OUTPUT_PROJECTION), "multi-head self-attention with an output layer"),
        (contract(C.HEADS, sizes={"heads": 4}), "4-head self-attention"),
        (contract(C.PADDING), "self-attention with a mask"),
        (contract(C.MASK, C.WEIGHTS), "self-attention with a mask and its weights returned"),
        (contract(inputs=("query", "context")), "cross-attention"),
        (contract(inputs=("query", "key", "value")), "attention of queries, keys and values"),
    ],
)
def test_an_attention_is_described_in_the_words_of_the_field(
    described: Contract, said: str
) -> None:
    assert describe_attention(described) == said


def test_arguments_are_said_to_be_what_they_were_found_to_be() -> None:
    arguments = (
        Argument("cfg", "config", fields=(Argument("E", "d_out"), Argument("H", "heads"))),
        Argument("causal", CONSTANT, default=True),
    )
    assert next(list_assumptions(OWN, contract(C.CAUSAL, arguments=arguments))) == (
        "`Own` takes `E`, the width of all heads together, `H`, the number of heads, "
        "`causal`, always True here"
    )


def test_what_is_unusual_is_said() -> None:
    form = CallForm(("x", "mask"), axes=TokenAxes.TOKENS_FIRST, mask=MaskConvention(Polarity.BLOCK))
    unusual = Contract(name="Own", call_form=form, capabilities=frozenset({C.MASK, C.FULL}))
    assert list(list_assumptions(OWN, unusual)) == [
        "its input has the shape (tokens, batch, width): if (batch, tokens, width) is meant, this "
        "attends over the batch",
        "its input has the shape (tokens, width), without a batch",
        "its mask is true where a query may not attend",
    ]
    assert describe_intent(unusual) == (
        "every token sees every other: if it should be causal, this is a mistake"
    )


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (CallForm(("query", "context")), "every token sees all tokens of the other sequence"),
        (CallForm(("x",), axes=TokenAxes.IMAGE), "every place of an image sees every other"),
    ],
)
def test_of_other_tokens_and_of_images_causality_is_not_asked(form: CallForm, said: str) -> None:
    own = Contract(name="Own", call_form=form, capabilities=frozenset({C.FULL, C.BATCH}))
    assert describe_intent(own) == said


def test_of_a_usual_causal_class_nothing_is_assumed() -> None:
    causal = Contract(name="Own", capabilities=frozenset({C.CAUSAL, C.BATCH}))
    assert list(list_assumptions(OWN, causal)) == []
