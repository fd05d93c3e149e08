"""A learned number that multiplies scores, as in cosine attention, is found and fixed."""

import textwrap
from dataclasses import replace

import pytest

from headcheck.properties.binding.bench import is_right_at
from headcheck.properties.binding.binding import Binding, NotBound, bind
from headcheck.properties.binding.describe import describe_attention, list_assumptions
from headcheck.properties.binding.hypotheses import OTHER
from headcheck.properties.parts.norms import NORMS, Norm
from headcheck.properties.parts.part import Found
from headcheck.properties.terms.call_form import LearnedScale, ScaleKind
from headcheck.properties.terms.case import Case
from tests.forms.bank import open_class
from tests.properties.binding.strangers import CAUSAL, SEPARATE, make, must_bind

pytestmark = pytest.mark.filterwarnings("ignore")
UNIT = "q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)\n"
BY_FACTOR = "s = q @ k.mT * self.tau"
OF_HEADS = "self.tau = nn.Parameter(torch.ones(heads, 1, 1))"
OF_ALL = "self.tau = nn.Parameter(torch.zeros(()))"


def make_scaled(
    scores: str = BY_FACTOR, unit: str = UNIT, init: str = OF_HEADS, mask: str = CAUSAL
) -> str:
    return make(init=f"{SEPARATE}\n{init}", scores=unit + scores, mask=mask)


SCALED = [
    (make_scaled(), ScaleKind.FACTOR, 0.5),
    (
        make_scaled("s = q @ k.mT * self.tau.clamp(max=4.6).exp()", init=OF_ALL),
        ScaleKind.EXPONENT,
        0.5,
    ),
    (make_scaled("s = q @ k.mT / self.tau.clamp(min=0.01)"), ScaleKind.DIVISOR, 0.5),
    (make_scaled(unit=""), ScaleKind.FACTOR, -0.5),
    (make_scaled(f"{BY_FACTOR} / q.shape[-1] ** 0.5", unit=""), ScaleKind.FACTOR, 0.0),
]


@pytest.mark.sampled(("source", "kind", "power"), SCALED, SCALED[::3])
def test_a_number_that_scales_scores_is_fixed(source: str, kind: ScaleKind, power: float) -> None:
    subject, signature = open_class(source, "Own")
    found = bind(subject, signature)
    assert isinstance(found, Binding) and not found.mistakes and not found.inexact
    contract = found.contract
    assert contract.call_form.scale == LearnedScale("tau", kind, power)
    assert is_right_at(subject, contract, contract.fit(OTHER))
    assert (contract.norm is Norm.RMS) == (power > 0)
    assert ("queries and keys of length one" in describe_attention(contract)) == (power > 0)
    assert "its `tau`, which scales them, is fixed" in "\n".join(
        list_assumptions(signature, contract)
    )


BESIDE = [
    (make_scaled(unit=UNIT.replace("-1", "-2"), mask=""), ["query_norm_over_tokens"]),
    (make_scaled(mask=CAUSAL.replace("triu(1)", "triu(2)")), ["next_token_visible"]),
]


@pytest.mark.sampled(("source", "mistakes"), BESIDE, BESIDE[1:])
def test_a_mistake_beside_the_scale_is_named(source: str, mistakes: list[str]) -> None:
    found = bind(*open_class(source, "Own"))
    assert isinstance(found, Binding)
    assert [mistake.name for mistake in found.mistakes] == mistakes


def test_a_scale_is_found_beside_weights_that_are_returned() -> None:
    init = f"{SEPARATE}\nself.scale = nn.Parameter(torch.tensor((dim // heads) ** -0.5))"
    found = must_bind(make(init=init, scores="s = q @ k.mT * self.scale", result="o, w"))
    assert found.contract.call_form.scale is not None


def test_heads_of_one_number_have_no_direction() -> None:
    contract = replace(must_bind(make_scaled()).contract, sizes={"head_dim": 1})
    assert contract.call_form.compares_directions
    assert not list(NORMS.read(contract, Found({}, Case(head_dim=1), is_named=False)))


@pytest.mark.whole
def test_a_number_that_scales_something_else_is_not_fixed() -> None:
    source = make(init=f"{SEPARATE}\n{OF_HEADS}", scores="s = q @ k.mT.tanh()", out=GATED)
    assert isinstance(bind(*open_class(source, "Own")), NotBound)


GATED = "o = self.out((self.tau * (w @ v)).transpose(1, 2).flatten(2))"


def test_a_fused_layer_may_have_biases_for_some_projections() -> None:
    init = """
    self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
    self.q_bias, self.v_bias = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
    """
    project = """
    biases = torch.cat([self.q_bias, torch.zeros_like(self.v_bias), self.v_bias])
    q, k, v = (
        t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        for t in F.linear(x, self.qkv.weight, biases).chunk(3, -1)
    )
    """
    held = {
        m.path: m.holds
        for m in must_bind(make(init=init, project=textwrap.dedent(project))).contract.mappings
    }
    assert held["q_bias"] == ("b_q",) and held["v_bias"] == ("b_v",)
