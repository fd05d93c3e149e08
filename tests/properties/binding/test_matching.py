"""What a class computes is compared with the equation, with known mistakes, with other scales."""

import math

import pytest

from headcheck.properties.binding.binding import Binding, NotBound
from headcheck.properties.binding.by_name import match_by_name
from headcheck.properties.binding.matching import _minimise
from headcheck.properties.binding.search import BindingSearch
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.terms.call_form import TokenAxes
from tests.forms.bank import open_class
from tests.properties.binding.strangers import (
    CAUSAL,
    OUT,
    PROJECT,
    SCORES,
    SEPARATE,
    bind_source,
    make,
    mistaken,
    must_bind,
)

pytestmark = pytest.mark.filterwarnings("ignore")

GATED = OUT + "\no = o * torch.sigmoid(self.gate(x))"


# --------------------------------------------------------------------------------- exact


@pytest.mark.parametrize(
    ("parts", "capability"),
    [({}, C.FULL), ({"mask": CAUSAL}, C.CAUSAL)],
    ids=["to everything", "causal"],
)
def test_what_equals_the_equation_is_bound_exactly(parts: dict[str, str], capability: C) -> None:
    contract = must_bind(make(**parts)).contract
    assert contract.has(capability, C.HEADS, C.BATCH, C.OUTPUT_PROJECTION, C.BIAS)
    assert {a.name: a.quantity for a in contract.arguments} == {"dim": "d_out", "heads": "heads"}
    assert contract.square


def test_tokens_may_come_before_the_batch() -> None:
    project = """
q, k, v = (
    layer(x).unflatten(-1, (self.heads, -1)).permute(1, 2, 0, 3)
    for layer in (self.q, self.k, self.v)
)
"""
    out = "o = self.out((w @ v).permute(2, 0, 1, 3).flatten(2))"
    form = must_bind(make(project=project, out=out)).contract.call_form
    assert form.axes is TokenAxes.TOKENS_FIRST
    assert must_bind(make()).contract.call_form.axes is TokenAxes.BATCH_FIRST


CONVOLVED = """
q, k, v = (
    layer(x).flatten(2).mT.unflatten(-1, (self.heads, -1)).transpose(1, 2)
    for layer in (self.q, self.k, self.v)
)
"""


@pytest.mark.parametrize(
    ("axes", "layer"), [(TokenAxes.WIDTH_FIRST, "Conv1d"), (TokenAxes.IMAGE, "Conv2d")]
)
def test_the_width_may_come_before_the_tokens(axes: TokenAxes, layer: str) -> None:
    init = f"self.q, self.k, self.v, self.out = (nn.{layer}(dim, dim, 1) for _ in range(4))"
    out = "o = self.out((w @ v).transpose(2, 3).flatten(1, 2).view(x.shape))"
    binding = must_bind(make(init=init, project=CONVOLVED, out=out))
    assert binding.contract.call_form.axes is axes
    assert binding.contract.has(C.HEADS, C.BATCH, C.OUTPUT_PROJECTION)


def test_a_number_that_is_no_parameter_is_a_scale_and_stays() -> None:
    init = f"self.scale = torch.sqrt(torch.FloatTensor([dim // heads]))\n{SEPARATE}"
    must_bind(make(init=init, scores="s = q @ k.mT / self.scale"))


def test_there_may_be_no_batch() -> None:
    project = "assert x.dim() == 2\nx = x[None]\ninputs = (x, x, x)" + PROJECT
    contract = must_bind(make(project=project, result="o[0]")).contract
    assert not contract.has(C.BATCH)


@pytest.mark.whole
def test_heads_and_widths_that_are_written_down_are_found() -> None:
    source = make(takes="dim=24", init="dim = 24\nheads = self.heads = 3\n" + SEPARATE)
    contract = must_bind(source.replace("dim=24", "")).contract
    assert contract.sizes == {"heads": 3, "head_dim": 8, "d_in": 24}


# ------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("parts", "mistake"),
    [
        ({"scores": "s = q @ k.mT"}, "no_scale"),
        ({"scores": "s = q @ k.mT / q.shape[-1]"}, "scale_without_root"),
        ({"scores": "s = q @ k.mT / x.shape[-1] ** 0.5"}, "scale_by_d_out"),
        ({"weights": "w = s.softmax(-2)"}, "softmax_over_queries"),
        ({"weights": "w = w.softmax(-1)"}, "double_softmax"),
        ({"out": "o = self.out((w @ v).reshape(x.shape))"}, "merge_without_transpose"),
        ({"out": OUT + " + x"}, "residual_added"),
        ({"mask": CAUSAL.replace("triu(1)", "triu(2)")}, "next_token_visible"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_a_mistake_is_recognised_as_what_it_is(parts: dict[str, str], mistake: str) -> None:
    assert mistaken(make(**parts)) == [mistake]


def test_two_mistakes_are_recognised_together() -> None:
    both = make(scores="s = q @ k.mT", out=OUT + " + x")
    assert set(mistaken(both)) == {"no_scale", "residual_added"}


def test_another_scale_is_no_other_attention() -> None:
    found = bind_source(make(scores="s = q @ k.mT * 0.37"))
    assert isinstance(found, Binding)
    assert (found.inexact, found.mistakes) == (True, ())


def test_the_scale_is_found_to_many_digits() -> None:
    found = _minimise(lambda exponent: abs(2.0**exponent - 0.37))
    assert math.isclose(2.0**found, 0.37, rel_tol=1e-9)


# --------------------------------------------------------------------- what is not bound


OTHER_KINDS = {
    "biased by position": {
        "scores": "s = q @ k.mT / q.shape[-1] ** 0.5\ns = s + torch.arange(s.shape[-1]).to(s)"
    },
    "without softmax": {"weights": "w = s.square() / s.square().sum(-1, keepdim=True)"},
    "gated": {"init": SEPARATE + "\nself.gate = nn.Linear(dim, dim)", "out": GATED},
    "queries bent": {"scores": "s = q.tanh() @ k.mT"},
}


@pytest.mark.sampled("kind", OTHER_KINDS, ["without softmax"])
def test_another_kind_of_attention_is_not_bound(kind: str) -> None:
    assert isinstance(bind_source(make(**OTHER_KINDS[kind])), NotBound)


def test_what_is_no_attention_is_not_bound() -> None:
    init = "self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)"
    source = make(init=init, project="", scores="s = x", out="o = self.down(self.up(x).relu())")
    assert isinstance(bind_source(source), NotBound)


def test_what_cannot_be_constructed_says_what_was_tried() -> None:
    found = bind_source(make(init="raise ValueError('never')"))
    assert isinstance(found, NotBound)
    assert not found.fault and "never" not in found.tried
    assert found.tried.startswith("no way to build and call it gave an output, such as `Own(dim=24")
    assert found.tried.endswith("add --bind, or write a contract")


# ------------------------------------------------------------- by the names of its weights


LAWS = {
    "it raises": {
        "out": OUT.replace("flatten(2)", "flatten(2).view(2 * len(x), x.shape[1], -1, x.shape[2])")
    },
    "other sequences matter": {
        "out": "o = self.out((w @ v).transpose(1, 2).flatten(2)) + x.mean(0) * 3"
    },
    "calls differ": {"scores": "s = q @ k.mT * torch.randn(())"},
    "weights do not sum to one": {"weights": "w = w * 1.7 + s.sin()"},
}


@pytest.mark.sampled("kind", LAWS, ["it raises", "calls differ"])
def test_what_breaks_a_law_of_every_attention_is_bound_by_its_names(
    kind: str,
) -> None:
    found = bind_source(make(**LAWS[kind]))
    assert isinstance(found, Binding)
    assert found.inexact
    assert {m.path for m in found.contract.mappings} >= {"q.weight", "k.weight", "v.weight"}


def test_what_refuses_every_call_with_several_tokens_is_not_accused() -> None:
    """It may be meant to generate one token at a time."""
    refused = f'assert x.shape[1] == 1, "decoding only"\n{SCORES}'
    assert isinstance(bind_source(make(scores=refused)), NotBound)


SEVERAL = {"inputs": "query, key, value", "out": LAWS["it raises"]["out"]}


@pytest.mark.parametrize("call", ["query, key, value", "query, key, value, mask"])
def test_what_always_raises_is_bound_by_its_names_whatever_it_takes(call: str) -> None:
    found = bind_source(make(call=call, **SEVERAL))
    assert isinstance(found, Binding)
    assert found.raises
    assert found.contract.call_form.mask.required == ("mask" in call)


FIXED = {"inputs": "x, x, x", "out": "o = self.out((w @ v).transpose(1, 2).flatten(2)).view(7, -1)"}
"""what raises with a number of its own"""


def test_what_raises_with_a_number_of_its_own_is_not_accused() -> None:
    """Other sizes may fit this number."""
    assert isinstance(bind_source(make(**FIXED)), NotBound)


@pytest.mark.parametrize("call", ["x, sequence_id", "x, tokens_of_them", "x, frequencies"])
def test_what_raises_for_numbers_that_mean_something_else_is_not_accused(call: str) -> None:
    name = call.partition(", ")[2]
    same = f"s = s + ({name}.unsqueeze(-1) == {name}.unsqueeze(-2))"
    assert isinstance(bind_source(make(call=call, mask=same)), NotBound)


def test_a_fixed_number_of_sequences_is_found_in_the_error() -> None:
    """A call of so many is right, so that any other number must be, too."""
    found = bind_source(make(result="o.view(6, -1, o.shape[-1])"))
    assert isinstance(found, Binding) and not found.inexact and not found.raises


def test_what_raises_and_takes_something_unknown_is_not_accused() -> None:
    assert isinstance(bind_source(make(call="query, key, value, glory", **SEVERAL)), NotBound)


def test_what_asks_for_an_image_is_not_accused() -> None:
    source = make(project="b, h, w, c = x.shape\n" + PROJECT)
    assert isinstance(bind_source(source), NotBound)


def test_what_breaks_no_law_is_not_accused() -> None:
    bent = make(scores="s = (q @ k.mT).sin()")
    assert match_by_name(BindingSearch(*open_class(bent, "Own"))) is None


@pytest.mark.whole
def test_what_breaks_a_law_but_has_other_names_is_not_accused() -> None:
    names = {"self.q": "self.one", "self.k": "self.two", "self.v": "self.three"}
    source = make(weights="w = w * 1.7 + s.sin()")
    for name, other in names.items():
        source = source.replace(f"{name},", f"{other},").replace(f"{name})", f"{other})")
    assert isinstance(bind_source(source), NotBound)
