"""A class that is not recognised is told why, or what was tried."""

import pytest

from headcheck.properties.binding.binding import NotBound
from tests.properties.binding.strangers import OUT, PROJECT, SCORES, SEPARATE, bind_source, make

pytestmark = pytest.mark.filterwarnings("ignore")


def tell(source: str) -> str:
    found = bind_source(source)
    assert isinstance(found, NotBound)
    return found.tried


@pytest.mark.parametrize(
    ("out", "told"),
    [
        ("o = self.only(x)", "gave an output, but no attention with its weights gives this output"),
        ("raise RuntimeError('no')", "no way to build and call it gave an output"),
    ],
)
def test_what_is_something_else_is_told_what_was_tried(out: str, told: str) -> None:
    parts = {"init": "self.only = nn.Linear(dim, dim)", "project": "", "scores": "s = x"}
    assert told in tell(make(**parts, out=out))


@pytest.mark.parametrize("add", ["x += self.places[: x.shape[1]]"])
def test_what_writes_over_its_input_is_told_so(add: str) -> None:
    init = "self.places = nn.Parameter(torch.randn(99, dim))\n" + SEPARATE
    assert tell(make(init=init, project=f"{add}\n{PROJECT}")).endswith("it writes over its input")
    other = add.replace("x += ", "inputs = (x * ")
    assert "writes" not in tell(make(init=init, project=f"{other},) * 3\n{PROJECT}"))


def test_heads_of_their_own_are_recognised_all_the_same() -> None:
    assert not isinstance(bind_source(make(project=PROJECT)), NotBound)


@pytest.mark.whole
def test_a_class_whose_calls_depend_on_earlier_ones_is_told_so() -> None:
    """It keeps the keys of its first context, so no later call uses its norm."""
    keeps = make(
        call="x, context",
        init=SEPARATE + "\nself.norm, self.kept = nn.LayerNorm(dim), None",
        inputs="x, self.norm(context), context",
        scores=f"if self.kept is None:\n    self.kept = k\nk = self.kept\n{SCORES}",
    )
    found = bind_source(keeps)
    assert isinstance(found, NotBound)
    assert found.tried == "what a call returns depends on an earlier call, of other tokens"
    draws = make(out=f"{OUT}\no = o + torch.randn_like(o)")
    drawn = bind_source(draws)
    assert not isinstance(drawn, NotBound) or "earlier" not in drawn.tried
