"""The gallery shows a mistake of every exercise that computes weights, with its picture."""

import re
import tomllib
from pathlib import Path

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer

ROOT = Path(__file__).parents[2]
DOCS, CHOSEN = ROOT / "docs", ROOT / "benchmarks" / "gallery.toml"
PAGE = (DOCS / "gallery.md").read_text(encoding="utf-8")
ANSWERS = tomllib.loads(CHOSEN.read_text(encoding="utf-8"))


def test_every_exercise_has_a_picture_or_is_said_to_have_none() -> None:
    without = re.findall(r"\b\w+\b", CHOSEN.read_text(encoding="utf-8").partition("\n\n")[0])
    assert {*ANSWERS} == {slug for slug in BY_SLUG if slug not in without}


def test_every_picture_is_of_an_answer_of_the_bank() -> None:
    for slug, name in ANSWERS.items():
        found = find_answer(BY_SLUG[slug], name)
        assert f"`{slug}/{found.name}`: " in PAGE
        drawing = (DOCS / "images" / "gallery" / f"{slug}.svg").read_text(encoding="utf-8")
        assert drawing.count("<svg ") >= 3, "what is right, and what was got"
        assert "&lt;" not in drawing
