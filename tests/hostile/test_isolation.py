"""Submissions are alone: in time with those before, and in space with those beside them."""

import pytest

from tests.hostile.arena import Arena, ArenaSetting
from tests.hostile.conftest import SETTINGS, Arenas
from tests.hostile.corpus import PAIRED_ATTACK, QUICK

SEED = """
import os
import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()

    def forward(self, x):
        raise ValueError(f"{torch.initial_seed()} {torch.rand(1).item()} {os.urandom(4).hex()}")
"""


def raced(arena: Arena, texts: list[str]) -> list[str]:
    """What submissions said that were alive at the same time."""
    folder = arena.folder / "submissions"
    paths = [folder / f"racer{i}.py" for i in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, "utf-8")
    said = arena.ask(op="race", paths=list(map(str, paths)), limits=dict(QUICK))
    arena.furnish()
    arena.before = arena.snapshot()
    assert "fault" not in said
    assert said["left"] == []
    words: list[str] = said["said"]
    return words


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_concurrent_submissions_find_nothing_of_each_other(
    arenas: Arenas, setting: ArenaSetting
) -> None:
    arena = arenas(setting)
    source = arena.fill_placeholders(PAIRED_ATTACK.source, "race")
    assert raced(arena, [source, source, source]) == ["", "", ""]
    assert arena.check_side_effects({}, "race") == []


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_random_numbers_reveal_nothing_about_other_submissions(
    arenas: Arenas, setting: ArenaSetting
) -> None:
    """Everybody's begin at the same place, whatever others drew; the kernel's are one's own."""
    said = raced(arenas(setting), [SEED] * 3)
    numbers = [text.split(" (")[0].split()[1:] for text in said]
    assert [len(set(column)) for column in zip(*numbers, strict=True)] == [1, 1, 3], said


def test_unisolated_submissions_see_each_other_s_marks(arenas: Arenas) -> None:
    open_ = ArenaSetting("A", SETTINGS[0].user, ("namespaces", "landlock", "scopes", "seccomp"))
    arena = arenas(open_)
    source = arena.fill_placeholders(PAIRED_ATTACK.source, "seen")
    said = raced(arena, [source, source])
    assert "won-seen" in said[1] and "hcseenmark" in said[1]
    assert arena.check_side_effects({}, "seen") != []
