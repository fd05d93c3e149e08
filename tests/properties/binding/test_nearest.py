"""A class that is not recognised is told what was tried, and what comes nearest."""

import pytest

from headcheck.properties.binding.binding import NotBound
from tests.properties.binding.strangers import OUT, PROJECT, SCORES, SEPARATE, bind_source, make

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


LEARNED = "self.{0} = nn.Parameter(torch.randn(3, dim))\n" + SEPARATE
TAKEN = "inputs = self.{0}.expand(len(x), -1, -1), x, x"


@pytest.mark.parametrize("name", ["latents", "blorp"])
def test_learned_queries_are_named(name: str) -> None:
    project = TAKEN.format(name) + PROJECT
    told = tell(make(init=LEARNED.format(name), project=project))
    assert told == f"attention of learned queries, `{name}`: not judged"


LUONG = """
def attend(x, memory):
    return torch.softmax(x @ memory.mT, -1) @ memory
"""
BOTH = "o = torch.tanh(self.both(torch.cat([attend(x, memory), x], -1)))"


@pytest.mark.parametrize(
    ("layers", "told"),
    [
        ("self.both = nn.Linear(2 * dim, dim)", True),
        ("self.both, self.more = nn.Linear(2 * dim, dim), nn.Linear(dim, 2 * dim)", False),
    ],
)
def test_an_output_layer_that_also_reads_queries_is_told_of(layers: str, told: bool) -> None:
    parts = {"init": layers, "project": "", "scores": "s = x", "before": LUONG}
    said = tell(make(takes="dim", call="x, memory", out=BOTH, **parts))
    assert said.startswith("attention whose output layer, `both.weight`, reads") == told


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
