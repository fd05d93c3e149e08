"""A crash in words: the axes of shapes are named where there is only one name for them."""

import pytest
import torch

from headcheck.exercises import BY_SLUG
from headcheck.properties.harness.call_sizes import add_call_sizes, list_call_sizes
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.crash import CallSizes, Crash
from headcheck.properties.violations.violation import Status, SubmissionFailed

SIZES = CallSizes(
    {"heads": "num_heads"},
    {"batch": 5, "tokens": 3, "context_length": 4, "d_in": 7, "heads": 2, "d_out": 22}
    | {"head_dim": 11},
    "5 sequences of 3 tokens",
)


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((5, 3, 7), "(batch=5, tokens=3, d_in=7)"),
        ((3, 5, 22), "(tokens=3, batch=5, d_out=22)"),
        ((4, 4), "(context_length=4, context_length=4)"),
        ((7,), "(d_in=7,)"),
        ((), "()"),
        ((5, 8, 3, 3), "(batch=5, 8, tokens=3, tokens=3)"),
        # Made of several: 3 widths, all heads of all sequences.
        ((5, 3, 66), "(batch=5, tokens=3, 66)"),
        ((10, 3, 11), "(10, tokens=3, head_dim=11)"),
        # As long by chance: one of two sequences, a square of another length, two of one kind.
        ((1, 3), "(1, tokens=3)"),
        ((5, 5), "(5, 5)"),
        ((7, 7), "(7, 7)"),
        ((5, 3, 5), "(5, tokens=3, 5)"),
    ],
)
def test_an_axis_has_a_name_where_it_can_be_no_other(shape: tuple[int, ...], told: str) -> None:
    assert SIZES.name_shape(shape) == told


def test_heads_are_behind_the_batch_and_their_number_is_not_one_less_than_the_tokens() -> None:
    sizes = CallSizes({"heads": "n_head"}, {"batch": 5, "tokens": 7, "heads": 2})
    assert sizes.name_shape((5, 2, 7, 7)) == "(batch=5, n_head=2, tokens=7, tokens=7)"
    assert sizes.name_shape((2, 5, 7, 7)) == "(2, batch=5, tokens=7, tokens=7)"
    assert SIZES.name_shape((5, 2, 3, 3)) == "(batch=5, 2, tokens=3, tokens=3)"
    alone = CallSizes({}, {"tokens": 7, "heads": 2})
    assert alone.name_shape((2, 7, 7)) == "(heads=2, tokens=7, tokens=7)"


def test_shared_keys_have_a_number_of_heads_unless_it_is_that_of_a_group() -> None:
    given = {"batch": 5, "tokens": 7, "heads": 6, "head_dim": 4, "d_out": 24}
    sizes = CallSizes({"kv_heads": "num_kv_heads"}, given | {"kv_heads": 3})
    assert sizes.name_shape((5, 3, 7, 4)) == "(batch=5, num_kv_heads=3, tokens=7, head_dim=4)"
    assert sizes.name_shape((3, 7, 4)) == "(3, tokens=7, head_dim=4)"
    assert sizes.name_shape((5, 3, 2, 7)) == "(batch=5, num_kv_heads=3, 2, tokens=7)"
    assert sizes.name_shape((5, 7, 12)) == "(batch=5, tokens=7, 12)"
    square = CallSizes({}, given | {"heads": 4, "kv_heads": 2, "head_dim": 9})
    assert square.name_shape((5, 2, 7, 9)) == "(batch=5, 2, tokens=7, head_dim=9)"


def test_two_sizes_that_are_equal_name_nothing() -> None:
    assert CallSizes({}, {"d_in": 6, "d_out": 6}).name_shape((6,)) == "(6,)"


@pytest.mark.parametrize(
    ("details", "told"),
    [
        ((), "It is late."),
        (("`x`",), "It is late: `x`."),
        (("`x`; did you mean `y`?",), "It is late: `x`; did you mean `y`?"),
        (("`x` is ", (3, 7)), f"It is late: `x` is (tokens=3, d_in=7). The input: {SIZES.text}."),
    ],
)
def test_a_crash_with_shapes_is_told_with_the_input(
    details: tuple[str | tuple[int, ...], ...], told: str
) -> None:
    assert str(Crash("It is late", details, SIZES)) == told


def test_without_sizes_shapes_are_numbers() -> None:
    assert str(Crash("It is late", ("`x` is ", (3, 7)))) == "It is late: `x` is (3, 7)."


# ------------------------------------------------------------------- sizes of a call


CASE = Case(batch=2, tokens=3, context_length=5, d_in=7, heads=2, head_dim=4, group=2, window=2)


@pytest.mark.parametrize(
    ("slug", "sizes", "text"),
    [
        (
            "multi_head_attention",
            {"d_in": 7, "d_out": 8, "context_length": 5, "num_heads": 2, "head_dim": 4}
            | {"tokens": 3, "batch": 2},
            "2 sequences of 3 tokens, with a context_length of 5",
        ),
        (
            "causal_self_attention",
            {"n_embd": 8, "block_size": 5, "n_head": 2, "head_dim": 4, "tokens": 3, "batch": 2},
            "2 sequences of 3 tokens, with a block_size of 5",
        ),
        (
            "multi_head_wrapper",
            {"d_in": 7, "d_out * num_heads": 8, "context_length": 5, "num_heads": 2, "d_out": 4}
            | {"tokens": 3, "batch": 2},
            "2 sequences of 3 tokens, with a context_length of 5",
        ),
        ("simplified_attention", {"d": 8, "tokens": 3}, "3 tokens"),
        (
            "grouped_query",
            {"d_in": 7, "d_out": 8, "num_heads": 2, "num_kv_heads": 1, "head_dim": 4}
            | {"tokens": 3, "batch": 2},
            "2 sequences of 3 tokens",
        ),
        (
            "sliding_window",
            {"d_in": 7, "d_out": 8, "num_heads": 2, "head_dim": 4, "window": 2}
            | {"tokens": 3, "batch": 2},
            "2 sequences of 3 tokens",
        ),
        ("weight_transfer", {"d_in": 7, "d_out": 8, "tokens": 3}, "3 tokens"),
    ],
)
def test_the_sizes_of_a_call_have_the_names_of_the_exercise(
    slug: str, sizes: dict[str, int], text: str
) -> None:
    found = list_call_sizes(BY_SLUG[slug].contract, CASE, torch.zeros(2, 3, 7))
    assert {found.names.get(n, n): size for n, size in found.sizes.items()} == sizes
    assert found.text == text


def test_one_token_and_no_tokens() -> None:
    contract = BY_SLUG["causal_attention"].contract
    one = list_call_sizes(contract, CASE, torch.zeros(1, 1, 7))
    assert one.text.startswith("1 sequence of 1 token,")
    for x in (None, torch.zeros(7)):
        found = list_call_sizes(contract, CASE, x)
        assert "tokens" not in found.sizes and found.text == ""


def test_a_call_that_is_not_the_case_s_own_is_told_as_such() -> None:
    contract = BY_SLUG["cross_attention"].contract
    x, others = torch.zeros(2, 3, 7), [torch.zeros(2, 11, 7)]
    sizes = list_call_sizes(contract, CASE, x, others)
    assert sizes.text == "2 sequences of 3 tokens as queries, with 11 keys"
    assert sizes.name_shape((2, 11, 9)) == "(2, keys=11, 9)"
    assert sizes.in_case and list_call_sizes(contract, CASE, x, [x]).text[-8:] == "3 tokens"
    other = list_call_sizes(contract, CASE, x[:, :2])
    told = "The input of this call, not that of the case: 2 sequences of 2 tokens."
    assert str(Crash("It is late", ((5,),), other)) == f"It is late: (5,). {told}"


@pytest.mark.parametrize("crash", [None, Crash("It is late", ((3,),))])
def test_a_failure_learns_the_sizes_of_its_call(crash: Crash | None) -> None:
    contract = BY_SLUG["causal_attention"].contract
    failure = SubmissionFailed(Status.CRASHED, "RuntimeError: no", crash=crash)
    x = torch.zeros(2, 3, 7)
    with pytest.raises(SubmissionFailed) as caught, add_call_sizes(contract, CASE, x):
        raise failure
    about = "The input: 2 sequences of 3 tokens, with a context_length of 5."
    told = f"It is late: (tokens=3,). {about}" if crash else "None"
    assert str(caught.value.crash) == told
