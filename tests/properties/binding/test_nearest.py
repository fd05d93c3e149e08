"""A class that is not recognised is told what was tried, and what comes nearest."""

import pytest

from headcheck.properties.binding.binding import NotBound
from tests.properties.binding.strangers import PROJECT, SCORES, bind_source, make

pytestmark = pytest.mark.filterwarnings("ignore")

SHARED = """
self.dim = dim
self.q, self.k, self.v = (nn.Linear(dim // heads, dim // heads, bias=BIAS) for _ in range(3))
self.out = nn.Linear(dim, dim)
"""
CUT_FIRST = """
q, k, v = (
    layer(tokens.unflatten(-1, (self.heads, -1))).transpose(1, 2)
    for layer, tokens in zip((self.q, self.k, self.v), inputs)
)
"""


def tell(source: str) -> str:
    found = bind_source(source)
    assert isinstance(found, NotBound)
    return found.tried


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("scores", [SCORES, "s = q @ k.mT / self.dim ** 0.5"])
def test_heads_that_share_one_projection_are_named(bias: bool, scores: str) -> None:
    init = SHARED.replace("BIAS", str(bias))
    assert tell(make(init=init, project=CUT_FIRST, scores=scores)) == (
        "nearest is multi-head self-attention with an output layer whose heads share one "
        "projection; usually each head has its own"
    )


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


def test_heads_of_their_own_are_recognised_all_the_same() -> None:
    assert not isinstance(bind_source(make(project=PROJECT)), NotBound)
