"""A table of positions, of which a class adds a row to each token."""

import pytest

from headcheck.properties.binding.bench import is_right_at
from headcheck.properties.binding.binding import Binding, NotBound, bind
from headcheck.properties.binding.describe import list_assumptions
from headcheck.properties.binding.hypotheses import OTHER
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.terms.call_form import AddedPositions
from tests.forms.bank import open_class
from tests.properties.binding.strangers import (
    CAUSAL,
    PROJECT,
    SCORES,
    SEPARATE,
    bind_source,
    make,
    must_bind,
)

pytestmark = pytest.mark.filterwarnings("ignore")
C = Capability
TAKES = "dim, heads, max_len"
PARAMETER = "self.pos = nn.Parameter(torch.zeros(1, max_len, dim))"
ROWS = "self.pos[:, :x.shape[1]]"
SINES = """
angles = torch.arange(max_len)[:, None] / 1e4 ** (torch.arange(0, dim, 2) / dim)
self.register_buffer("pos", torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[None, :, :dim])
"""
EMBEDDING = "self.places = nn.Embedding({rows}, dim)"
LOOKED_UP = "self.places(torch.arange(x.shape[1]) + {first})"


def make_placed(
    rows: str = ROWS,
    to: str = "qkv",
    after: str = "",
    init: str = PARAMETER,
    takes: str = TAKES,
    mask: str = CAUSAL,
    scores: str = SCORES,
) -> str:
    """The source of a class that adds rows to tokens, or to what layers make of them."""
    inputs = ", ".join(f"x + {rows}" if role in to else "x" for role in "qkv")
    cut = "unflatten(-1, (self.heads, -1)).transpose(1, 2)"
    added = "\n".join(f"{each} = {each} + ({rows}).{cut}" for each in after)
    return make(
        takes=takes,
        init=f"{SEPARATE}\n{init}",
        inputs=inputs,
        project=f"{PROJECT}\n{added}",
        mask=mask,
        scores=scores,
    )


RIGHT = [
    (make_placed(mask=""), "pos"),
    (make_placed(init=SINES), "pos"),
    (
        make_placed(LOOKED_UP.format(first=2), init=EMBEDDING.format(rows="max_len + 2")),
        "places.weight",
    ),
    (make_placed(to="qk"), "pos"),
    (make_placed(to="", after="qk"), "pos"),
]


@pytest.mark.sampled(("source", "path"), RIGHT, RIGHT[::3])
def test_rows_that_reach_queries_and_keys_are_right(source: str, path: str) -> None:
    subject, signature = open_class(source, "Own")
    found = bind(subject, signature)
    assert isinstance(found, Binding) and not found.mistakes and not found.inexact
    assert found.contract.call_form.positions == AddedPositions(path)
    assert is_right_at(subject, found.contract, found.contract.fit(OTHER))
    said = "\n".join(list_assumptions(signature, found.contract))
    assert f"judged with zeros in `{path}`, whose rows it adds as positions" in said


def test_the_rows_of_a_table_are_the_longest_length() -> None:
    init = PARAMETER.replace("max_len", "20")
    found = must_bind(make_placed(init=init, takes="dim, heads"))
    assert found.contract.sizes == {"context_length": 20}
    assert found.contract.has(C.CONTEXT)


WRONG = [
    (make_placed(to="q"), "reach its queries alone"),
    (make_placed(to="", after="q"), "reach its queries alone"),
    (make_placed(to="", after="k"), "reach its keys alone"),
    (
        make_placed("self.pos[:len(x)].unsqueeze(1)", init=PARAMETER.replace("1, ", "")),
        "each sequence gets a row of `pos`, and not each token",
    ),
    (
        make_placed(LOOKED_UP.format(first=1), init=EMBEDDING.format(rows="max_len")),
        "from row 1 on",
    ),
]


@pytest.mark.sampled(("source", "remark"), WRONG, WRONG[::3])
def test_rows_that_do_not_reach_each_token_are_wrong(source: str, remark: str) -> None:
    subject, signature = open_class(source, "Own")
    found = bind(subject, signature)
    assert isinstance(found, Binding) and found.inexact
    assert any(remark in each for each in found.remarks)
    assert not is_right_at(subject, found.contract, found.contract.fit(OTHER))


def test_a_mistake_beside_positions_is_named() -> None:
    found = bind_source(make_placed(scores=SCORES.replace("** 0.5", "")))
    assert isinstance(found, Binding)
    assert [mistake.name for mistake in found.mistakes] == ["scale_without_root"]
    assert found.contract.call_form.positions == AddedPositions("pos")


OTHERS = [
    make_placed("self.pos[:, :1]"),  # it may tell one kind of tokens from others
    make_placed(to="kv"),
    make(takes=TAKES, init=f"{SEPARATE}\n{PARAMETER}", inputs=f"x.add_({ROWS}), x, x"),
]


@pytest.mark.sampled("source", OTHERS, OTHERS[::2])
def test_other_uses_of_a_table_are_not_judged(source: str) -> None:
    assert isinstance(bind_source(source), NotBound)
