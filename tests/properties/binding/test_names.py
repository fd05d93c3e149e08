"""What an argument of a constructor is does not depend on what it is called."""

import ast
from collections.abc import Mapping

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import Answer, list_answers
from headcheck.properties.binding.binding import Binding, NotBound
from tests.properties.binding.strangers import CAUSAL, SEPARATE, bind_source, make, must_bind

pytestmark = pytest.mark.filterwarnings("ignore")

NONSENSE = ("blorp", "zib", "quux", "wug", "narf")
EXERCISES = (
    "multi_head_attention",
    "multi_head_wrapper",
    "masked_multi_head",
    "causal_attention",
    "grouped_query",
)
ANSWERS = [
    answer
    for slug in EXERCISES
    for answer in list_answers(BY_SLUG[slug], "right")
    if "noted: extra_dropout" not in answer.description  # its rate is not judged, so not bound
]


def rename(source: str, name: str, others: Mapping[str, str]) -> str:
    """Return a source in which the constructor of a class calls its arguments otherwise."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            init = next(d for d in node.body if getattr(d, "name", "") == "__init__")
            for part in ast.walk(init):
                if isinstance(part, ast.arg):
                    part.arg = others.get(part.arg, part.arg)
                if isinstance(part, ast.Name):
                    part.id = others.get(part.id, part.id)
    return ast.unparse(tree)


def say(answer: Answer) -> str:
    return f"{answer.exercise}/{answer.name}"


@pytest.mark.sampled("answer", ANSWERS, ANSWERS[::36], ids=say)
def test_arguments_are_what_they_do(answer: Answer) -> None:
    contract = BY_SLUG[answer.exercise].contract
    said = {a.name: a.quantity for a in contract.arguments if a.quantity != "bias"}
    # Where heads are as wide as an argument says, none of five names is found in the time there is.
    every = () if answer.exercise == "multi_head_wrapper" else (tuple(said),)
    for some in (*((name,) for name in said), *every):
        others = dict(zip(some, NONSENSE, strict=False))
        found = must_bind(rename(answer.source, contract.name, others), contract.name)
        got = {a.name: a.quantity for a in found.contract.arguments}
        wanted = {others.get(name, name): quantity for name, quantity in said.items()}
        assert {name: got.get(name) for name in wanted} == wanted


def test_the_longest_length_is_no_width_of_a_head() -> None:
    """At one size both fit: the mask of 6 tokens is long enough for the 5 that are tried first."""
    table = "self.register_buffer('later', torch.ones(blorp, blorp, dtype=torch.bool).triu(1))"
    mask = "s = s.masked_fill(self.later[: s.shape[-1], : s.shape[-1]], -torch.inf)"
    source = make(takes="dim, heads, blorp", init=f"{SEPARATE}\n{table}", mask=mask)
    found = must_bind(source)
    assert found.contract.arguments[2].quantity == "context_length"
    assert found.contract.sizes is None


def test_a_rate_is_no_size() -> None:
    """In an evaluation a rate of 7 does nothing, so a size would do as well."""
    dropping = "w = F.dropout(w, self.blorp) if self.training else w"
    init = f"self.blorp = blorp\n{SEPARATE}"
    found = must_bind(make(takes="dim, heads, blorp", init=init, mask=CAUSAL, weights=dropping))
    assert found.contract.arguments[2].quantity == "dropout"


def test_defaults_that_are_the_sizes_found_are_these_sizes() -> None:
    init = f"self.heads, dim = zib, blorp\n{SEPARATE}"
    contract = must_bind(make(takes="blorp=96, zib=6", init=init)).contract
    assert {a.name: a.quantity for a in contract.arguments} == {"blorp": "d_out", "zib": "heads"}
    assert contract.sizes is None and contract.square


def test_defaults_are_sizes_beside_a_mistake_too() -> None:
    init = f"self.heads, dim = zib, blorp\n{SEPARATE}"
    found = bind_source(make(takes="blorp=96, zib=6", init=init, scores="s = q @ k.mT"))
    assert isinstance(found, Binding) and found.contract.sizes is None
    assert [mistake.name for mistake in found.mistakes] == ["no_scale"]


def test_a_default_that_is_no_size_is_left() -> None:
    contract = must_bind(make(takes="dim, heads, chunk=48")).contract
    assert [a.name for a in contract.arguments] == ["dim", "heads"]


NUMBERS = {
    "temperature": {"scores": "s = q @ k.mT / q.shape[-1] ** 0.5 / self.blorp"},
    "factor": {"scores": "s = q @ k.mT * self.blorp"},
    "mixture": {"result": "(1 - self.blorp) * o + self.blorp * x"},
    "threshold": {"weights": "w = (w - self.blorp).clamp_min(0)"},
    "limit": {"mask": "s = self.blorp * (s / self.blorp).tanh()"},
}
"""what a number may do that is neither a size nor a rate of dropout"""


@pytest.mark.whole
@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number_of_another_kind_is_no_mistake_of_its_author(kind: str) -> None:
    """What is passed for it may be what looks wrong, so such a class is not recognised."""
    source = make(
        takes="dim, heads, blorp", init=f"self.blorp = blorp\n{SEPARATE}", **NUMBERS[kind]
    )
    assert isinstance(bind_source(source), NotBound)
