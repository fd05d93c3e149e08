"""Each way in which a class without an exercise can fail, with a right and a wrong class."""

import textwrap

import pytest

from headcheck.properties.binding import grounds
from headcheck.properties.binding.grounds import Ground
from tests.grader.conftest import GradeAll

MADE = """\
import torch
from torch import nn


{before}
class {name}(nn.Module):
    {doc}
    def __init__(self, {takes}):
        super().__init__()
        {init}
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, {call}):
        {first}
        q, k, v = (
            f(t).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for f, t in zip((self.q, self.k, self.v), ({inputs}))
        )
        s = q @ k.mT {scale}
        {mask}
        {weights}
        return self.o({result})
"""
USUAL = {
    "before": "", "name": "Mixer", "doc": "", "takes": "dim, heads", "init": "pass", "call": "x",
    "first": "pass", "inputs": "x, x, x", "scale": "/ q.shape[-1] ** 0.5", "mask": "pass",
    "weights": "w = s.softmax(-1)", "result": "(w @ v).transpose(1, 2).flatten(2)",
}  # fmt: skip
HIDE = "s = s.masked_fill(torch.ones_like(s).tril() == 0, -1e9)"
SHOWN = "torch.ones_like(s).tril()"
WINDOWED = {
    "doc": '"""Each token sees `window` tokens, itself included."""',
    "takes": "dim, heads, window",
    "init": "self.window = window",
}
FOLLOW = "s = s if mask is None else s.masked_fill(mask == 0, -1e9)"
INVERT = "s = s if mask is None else s.masked_fill(mask != 0, -1e9)"
BLOCK = """
class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attend, self.norm = Mixer(dim, heads), nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)

    def forward(self, x):
        x = x + self.attend(x)
        return x + self.down(self.up({}).relu())
"""


def make(**parts: str) -> str:
    """The source of a class, with these parts instead of the usual ones."""
    inside = {n: textwrap.indent(t, " " * 8).lstrip() for n, t in parts.items() if n != "before"}
    return MADE.format(**{**USUAL, **inside, "before": parts.get("before", "")})


PAIRS: dict[Ground, tuple[str, str]] = {
    grounds.COMPUTES: (make(), make(scale="/ q.shape[-1]")),
    grounds.RAISES: (make(), make(first="x = y")),
    grounds.LATER: (
        make(doc='"""Causal attention."""', mask=HIDE),
        make(doc='"""Causal attention."""'),
    ),
    grounds.POLARITY: (
        make(doc='"""mask: True marks tokens to attend to."""', call="x, mask=None", mask=FOLLOW),
        make(doc='"""mask: True marks tokens to attend to."""', call="x, mask=None", mask=INVERT),
    ),
    grounds.SIDES: (
        make(call="x, context", inputs="x, context, context"),
        make(call="x, context", inputs="context, x, x"),
    ),
    grounds.WINDOW: (
        make(**WINDOWED, mask=f"s = s.masked_fill({SHOWN}.triu(1 - self.window) == 0, -1e9)"),
        make(**WINDOWED, mask=f"s = s.masked_fill({SHOWN}.triu(-self.window) == 0, -1e9)"),
    ),
    grounds.AROUND: (
        make() + BLOCK.format("self.norm(x)"),
        make() + BLOCK.format("x"),
    ),
}
"""a right and a wrong class for each ground that is not the subject of a module of its own"""
ELSEWHERE = {
    grounds.FLOWS: "test_flow_binding",
    grounds.NUMBERS: "test_other_masks", grounds.SHARING: "test_sharing_and_roles",
    grounds.WIDTHS: "test_open_mode",
    grounds.MASKS: "test_other_masks", grounds.BLOCK: "test_own_blocks",
    grounds.UNKNOWN: "test_layers", grounds.KIND: "test_other_kinds",
}  # fmt: skip
"""the modules with right and wrong classes of the other grounds"""


def test_every_ground_has_a_right_and_a_wrong_class() -> None:
    assert {*PAIRS, *ELSEWHERE} == {*grounds.GROUNDS}


@pytest.mark.parametrize("ground", PAIRS, ids=lambda ground: ground.sentence[:30])
def test_the_right_class_passes_and_the_wrong_one_says_its_ground(
    grade_all: GradeAll, ground: Ground
) -> None:
    right, wrong = PAIRS[ground]
    assert {record.status for record in grade_all(right)} == {"passed"}
    [record] = [each for each in grade_all(wrong) if each.status != "passed"]
    assert record.status in ground.statuses
    fixed = ground.sentence.partition("{}")[0]
    assert any(note.message.startswith(fixed) for note in record.notes), record.notes
    assert (record.max_score == 10) == ground.points.startswith("10")
