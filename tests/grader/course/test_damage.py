"""Verdicts in a store that cannot be read: told, without a score, and graded again."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from headcheck.grader.course import CourseError
from headcheck.grader.course.export import Gradebook, export
from headcheck.grader.course.result_lookup import load_results
from headcheck.grader.course.store.database import begin_write
from headcheck.grader.course.store.store import open_store
from tests.grader.course.conftest import RunCommand
from tests.grader.course.gradebooks import MakeRecord, make_standing

SLUG = "causal_weights"
STORE = ("--store", "c.db")
GRADE = ("grade", "class", *STORE, "--run", "w", "--exercise", SLUG)
DAMAGE = ['{"file":', "", "{}", "null", "[" * 100_000, '{"file": 1}', "\\x00"]


@pytest.fixture
def headcheck(run_command: RunCommand, tmp_path: Path) -> RunCommand:
    """Run a command beside a class of two."""
    (tmp_path / "class").mkdir()
    for who in ("ada", "bob"):
        (tmp_path / "class" / f"{who}.py").write_text(f"100 {who}")
    return run_command


def damage(broken: str) -> None:
    with open_store("c.db") as store, begin_write(store.engine) as connection:
        change = text("UPDATE verdicts SET record = :r WHERE judgement = 1")
        connection.execute(change, {"r": broken})


@pytest.mark.parametrize("broken", DAMAGE)
def test_a_damaged_verdict_is_told_and_graded_again(
    headcheck: RunCommand, fake_grader: Any, broken: str
) -> None:
    headcheck(*GRADE)
    damage(broken)
    code, out, said = headcheck("export", "w", *STORE, "--format", "csv")
    assert code == 1 and "bob,bob" in out
    assert "headcheck: whose verdict in the store is damaged: grade again: ada\n" in said
    _, out, said = headcheck("export", "w", *STORE, "--format", "csv", "--anonymous")
    assert "damaged: grade again: " in said and "ada" not in out + said and "bob" not in out + said
    assert "busy" not in said
    assert headcheck("dashboard", "w", *STORE, "--out", "pages")[0] == 0
    headcheck("regrade", "w", *STORE, "--diff")
    before = len(fake_grader.graded_texts)
    _, _, said = headcheck(*GRADE)
    assert "headcheck: damaged verdicts in the store, graded again: 1\n" in said
    assert fake_grader.graded_texts[before:] == ["100 ada"]
    assert "damaged" not in headcheck(*GRADE)[2]
    with open_store("c.db") as store:
        assert [each.score for each in load_results(store, "w")] == [100.0, 100.0]


def test_a_damaged_verdict_can_be_decided_about(headcheck: RunCommand) -> None:
    headcheck(*GRADE)
    damage("{")
    assert headcheck("override", "w/ada", "60", *STORE)[0] == 0
    assert "ada" in headcheck("export", "w", *STORE, "--format", "csv")[1]


@pytest.mark.parametrize("form", ["gradescope", "prairielearn", "github"])
def test_names_of_files_that_differ_in_case_are_told(record: MakeRecord, form: str) -> None:
    people = ("ada", "Ada", "É", "e\u0301", "bob")
    book = Gradebook("w", tuple(make_standing(who, record(who)) for who in people))
    exported = export(book, form)
    told = [each for each in exported.remarks if "are one file where names ignore case" in each]
    assert any("ada" in each and "Ada" in each for each in told)
    assert not any("bob" in each for each in told)
    assert len({name.casefold() for name in exported.files}) + len(told) == len(exported.files)


def test_damaged_bytes_are_a_line(headcheck: RunCommand) -> None:
    headcheck(*GRADE)
    with open_store("c.db") as store, begin_write(store.engine) as connection:
        connection.execute(text("UPDATE contents SET compressed = x'00'"))
    with pytest.raises(CourseError, match="the bytes of a file in the store are damaged"):
        headcheck("export", "w", *STORE, "--format", "code", "--out", "code")
    assert headcheck("export", "w", *STORE, "--format", "csv")[0] == 0


@pytest.mark.parametrize("broken", ["{", "", "null", '{"headcheck": 1}'])
def test_a_run_with_damaged_settings_is_told_and_graded_again(
    headcheck: RunCommand, fake_grader: Any, broken: str
) -> None:
    headcheck(*GRADE)
    headcheck(*(each.replace("w", "v") if each == "w" else each for each in GRADE))
    with open_store("c.db") as store, begin_write(store.engine) as connection:
        connection.execute(text("UPDATE runs SET manifest = :m WHERE name = 'w'"), {"m": broken})
    code, listed, told = headcheck("runs", *STORE)
    assert (code, [line.split()[1] for line in listed.splitlines()]) == (0, ["v"])
    assert told == "w: its settings are damaged; grade the class into it again\n"
    with open_store("c.db") as store, pytest.raises(CourseError, match=r"^w: the settings of this"):
        load_results(store, "w")
    assert "w: the earlier settings are damaged; the seed, the" in headcheck(*GRADE)[2]
    code, listed, told = headcheck("runs", *STORE)
    assert (code, [line.split()[1] for line in listed.splitlines()], told) == (0, ["v", "w"], "")
    assert "damaged" not in headcheck(*GRADE)[2]
    with open_store("c.db") as store:
        assert {each.student for each in load_results(store, "w")} == {"ada", "bob"}
