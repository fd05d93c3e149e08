"""`headcheck bank`: lists, prints and writes the answers that are kept."""

from dataclasses import replace
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer, load_bank
from tests.commands import Command, one_line

SLUG = "causal_attention"
BANK = load_bank(BY_SLUG[SLUG])


def test_show_lists_every_answer_with_its_summary(headcheck: Command) -> None:
    ran = headcheck("bank", "show", SLUG)
    assert (ran.code, ran.err) == (0, "")
    listed = [line.split(maxsplit=2) for line in ran.out.splitlines()]
    assert listed == [[answer.kind, answer.name, answer.description] for answer in BANK]


@pytest.mark.parametrize("name", ["no_scale", "stub", "fused"])
def test_show_prints_an_answer_as_it_is_checked(headcheck: Command, name: str) -> None:
    ran = headcheck("bank", "show", f"{SLUG}/{name}")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == find_answer(BY_SLUG[SLUG], name).source


@pytest.mark.parametrize("name", ["no_scales", "", "../solution"])
def test_unknown_answer_is_reported(headcheck: Command, name: str) -> None:
    said = one_line(headcheck("bank", "show", f"{SLUG}/{name}"))
    known = "did you mean no_scale?" if name == "no_scales" else f"see `headcheck bank show {SLUG}`"
    assert said == f"no answer to {SLUG} is called {name!r}; {known}"


def test_write_sorts_the_answers_by_kind(headcheck: Command) -> None:
    ran = headcheck("bank", "write", SLUG, "new/folder")
    assert (ran.code, ran.out) == (0, f"wrote {len(BANK)} answers into new/folder\n")
    for answer in BANK:
        path = Path("new/folder", answer.kind, f"{answer.name}.py")
        assert path.read_text(encoding="utf-8") == answer.source
    assert len(list(Path("new").rglob("*.py"))) == len(BANK)


def test_impossible_folder_is_reported(headcheck: Command) -> None:
    Path("taken").write_text("")
    assert "a file is where a folder should be" in one_line(
        headcheck("bank", "write", SLUG, "taken/folder")
    )


def test_unreadable_bank_is_reported_in_one_line(
    headcheck: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "faults.toml").write_text("[unfinished")
    monkeypatch.setitem(BY_SLUG, SLUG, replace(BY_SLUG[SLUG], folder=tmp_path))
    assert "faults.toml, line 1: " in one_line(headcheck("bank", "show", SLUG))
