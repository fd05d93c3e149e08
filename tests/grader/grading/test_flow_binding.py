"""A class is read by what it does with its tensors only where every tensor has a known role."""

import pytest

from headcheck.grader.grading.open_mode.flow_binding import match_by_flow
from headcheck.properties.binding.binding import Binding, NotBound, bind
from headcheck.properties.binding.calls import set_given_aside
from headcheck.properties.binding.search import BindingSearch, Match
from headcheck.properties.binding.ways import MAX_STEPS
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.subject import Subject
from tests.forms.bank import Form, list_forms, open_class
from tests.properties.binding.strangers import FUSED, PROJECT, SEPARATE, THIRDS, make

pytestmark = pytest.mark.filterwarnings("ignore")

RIGHT, OTHER = list_forms("right"), list_forms("other")
GATED = SEPARATE + "\nself.gate = nn.Linear(dim, heads)"
WRONG = {
    "gates_of_other_tokens": make(
        init=GATED,
        out="g = self.gate(x).sigmoid().reshape(len(x), self.heads, -1, 1)\n"
        "o = self.out((w @ v * g).transpose(1, 2).flatten(2))",
    ),
    "keys_of_two_layers": make(project=PROJECT + "k = k + self.q(x).unflatten(-1, (self.heads, -1))"
                               ".transpose(1, 2)"),
    "values_of_the_next_token": make(project=PROJECT + "v = v.roll(1, 2) * 0.5"),
    "weights_of_pairs": make(weights="w = (w + w.roll(1, 1)) / 2"),
}  # fmt: skip
"""classes that are wrong in ways that no named mistake describes"""
KINDS = {
    "features_by_softmax": make(
        scores="s = torch.zeros(1)",
        out="o = self.out((q.softmax(-1) @ (k.softmax(-2).mT @ v)).transpose(1, 2).flatten(2))",
    ),
    "scores_mixed_by_a_layer": make(
        init=SEPARATE + "\nself.mix = nn.Linear(heads, heads)",
        mask="s = self.mix(s.transpose(1, -1)).transpose(1, -1)",
    ),
    "a_bias_of_distances": make(
        mask="n = torch.arange(s.shape[-1])\ns = s - 0.3 * (n - n[:, None]).abs().sqrt()",
    ),
    "a_bias_in_a_kernel": make(
        weights="n = torch.arange(s.shape[-1])\nb = -0.3 * (n - n[:, None]).abs().to(x).sqrt()",
        out="o = self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=b)"
        ".transpose(1, 2).flatten(2))",
    ),
    "a_gate_on_values": make(
        init=GATED,
        project=PROJECT + "v = v * self.gate(x).sigmoid().reshape(len(x), self.heads, -1, 1)",
    ),
    "a_gate_after_the_output_layer": make(
        init=GATED.replace("dim, heads)", "dim, dim)"),
        result="o * self.gate(x).sigmoid().roll(1, 1)",
    ),
    "a_limit_of_scores": make(mask="s = s.arctan()"),
    "tokens_added": make(result="o + x"),
}
"""classes that may be right, as kinds of attention that headcheck does not know"""


def read(source: str, name: str) -> tuple[Match | None, Binding | NotBound]:
    """What the flow of a class says, and what its behaviour says."""
    subject, signature = open_class(source, name)
    return match_by_flow(call(subject, signature)), bind(subject, signature, ())


def call(subject: Subject, signature: Signature) -> BindingSearch:
    """A search that has called the class, and had little time for more."""
    search = try_to_call(subject, signature)
    assert search.probes, "it can be called"
    return search


def try_to_call(subject: Subject, signature: Signature) -> BindingSearch:
    search = BindingSearch(subject, set_given_aside(signature), steps=MAX_STEPS - 300)
    list(search.iter_matches())
    return search


def name_roles(contract: Contract) -> set[tuple[str, tuple[str, ...]]]:
    return {(m.path, m.holds) for m in contract.mappings}


@pytest.mark.sampled("form", RIGHT, RIGHT[3::12], ids=lambda form: form.file.removesuffix(".py"))
def test_the_flow_of_a_right_class_says_what_its_behaviour_says(form: Form) -> None:
    flow, found = read(form.source, form.cls)
    if flow is not None:
        assert isinstance(found, Binding), form.what
        assert name_roles(flow.contract) == name_roles(found.contract), form.what
        assert flow.contract.positions == found.contract.positions
        assert (flow.contract.sizes or {}).get("heads") == (found.contract.sizes or {}).get("heads")


@pytest.mark.sampled("form", OTHER, OTHER[2::6], ids=lambda form: form.file.removesuffix(".py"))
def test_the_flow_of_other_kinds_says_nothing(form: Form) -> None:
    assert match_by_flow(try_to_call(*open_class(form.source, form.cls))) is None, form.what


@pytest.mark.sampled("name", WRONG, list(WRONG)[1:2])
def test_a_wrong_class_that_no_mistake_explains_is_read_by_its_flow(name: str) -> None:
    subject, signature = open_class(WRONG[name], "Own")
    found = bind(subject, signature, (match_by_flow,))
    assert isinstance(found, Binding)
    assert found.inexact
    assert name_roles(found.contract) >= {("q.weight", ("W_q",))}


@pytest.mark.parametrize("name", KINDS)
def test_a_class_that_does_anything_else_is_not_read(name: str) -> None:
    subject, signature = open_class(KINDS[name], "Own")
    assert match_by_flow(call(subject, signature)) is None


@pytest.mark.parametrize(("name", "read_as"), [("qkv", ("W_q", "W_k", "W_v")), ("packed", None)])
def test_the_order_in_a_fused_layer_is_not_guessed(
    name: str, read_as: tuple[str, ...] | None
) -> None:
    parts = {"init": FUSED, "project": THIRDS + "k = k + q.roll(1, 2)"}
    source = make(**parts).replace("self.qkv", f"self.{name}")
    found = match_by_flow(call(*open_class(source, "Own")))
    held = {m.path: m.holds for m in found.contract.mappings} if found is not None else {}
    assert held.get(f"{name}.weight") == read_as
