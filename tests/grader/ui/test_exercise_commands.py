"""The commands about exercises: list, show, hint, start."""

from pathlib import Path
from typing import Any

import nbformat
import pytest

from headcheck.exercises import ALL, BY_SLUG
from headcheck.grader.report.records import from_json
from tests.commands import RIGHT, Command, one_line, written


def test_list_names_every_exercise_in_order(headcheck: Command) -> None:
    ran = headcheck("list")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[0] for line in ran.out.splitlines()] == [e.slug for e in ALL]


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.slug)
def test_show_prints_the_statement_and_its_points(headcheck: Command, exercise: Any) -> None:
    ran = headcheck("show", exercise.slug)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(exercise.statement.rstrip())
    assert "values: 40 points for " in ran.out
    assert not [claimed for claimed in exercise.properties if claimed.claim in ran.out]
    assert len(ran.out.splitlines()) < len(exercise.statement.splitlines()) + 25
    whole = headcheck("show", exercise.slug, "--checks").out
    assert all(wanted.claim in whole for wanted in exercise.properties)


def test_show_knows_what_a_course_says_of_points(headcheck: Command, tmp_path: Path) -> None:
    course = tmp_path / "course.toml"
    course.write_text("[points.causal_attention]\nvalues = 70\n")
    named = headcheck("show", "causal_attention", "--course", str(course))
    assert "values: 70 points" in named.out and "mask: 20 points" in named.out
    assert "values: 40 points" in headcheck("show", "rope", "--course", str(course)).out
    assert "values: 40 points" in headcheck("show", "causal_attention").out
    course.rename("headcheck.toml")
    found = headcheck("show", "causal_attention")
    assert "values: 70 points" in found.out and "course file: headcheck.toml" in found.err


@pytest.mark.parametrize("command", ["show", "start", "hint", "bank show", "bank write"])
def test_a_misspelt_exercise_is_suggested(headcheck: Command, command: str) -> None:
    message = "there is no exercise 'self_attention_v3'; did you mean self_attention_v2?"
    folder = ["bank"] if command == "bank write" else []
    said = one_line(headcheck(*command.split(), "self_attention_v3", *folder))
    assert said in (message, message.replace("2", "1"))


def test_check_of_a_slug_names_the_file(headcheck: Command) -> None:
    start = "causal_attention is an exercise, and there is no such file; "
    said = one_line(headcheck("check", "causal_attention"))
    assert said == f"{start}`headcheck start causal_attention` makes one"
    written(causal_attention=RIGHT)
    said = one_line(headcheck("check", "causal_attention:f"))
    assert said == f"{start}check the file: `headcheck check causal_attention.py`"
    Path("causal_attention.ipynb").touch()
    said = one_line(headcheck("check", "causal_attention"))
    assert "causal_attention.ipynb` or `headcheck check causal_attention.py`" in said


def test_hints_are_shown_one_at_a_time(headcheck: Command) -> None:
    first, second, _, fourth = BY_SLUG["causal_attention"].hints
    ran = headcheck("hint", "causal_attention")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"Hint 1 of 4\n\n{first}\n\nThe next: headcheck hint causal_attention 2\n"
    assert second in headcheck("hint", "causal_attention", "2").out
    last = headcheck("hint", "causal_attention", "4").out
    assert last == f"Hint 4 of 4\n\n{fourth}\n\nThis was the last.\n"


def test_a_hint_that_is_not_there_is_refused(headcheck: Command) -> None:
    assert one_line(headcheck("hint", "causal_attention", "5")) == (
        "causal_attention has 4 hints, counted from 1; no hint 5"
    )


def test_show_hides_hints_unless_requested(headcheck: Command) -> None:
    shown = headcheck("show", "causal_attention").out
    assert not [hint for hint in BY_SLUG["causal_attention"].hints if hint in shown]
    assert shown.endswith("Stuck? There are 4 hints: headcheck hint causal_attention\n")


def test_start_all_writes_the_series_and_its_contents(headcheck: Command) -> None:
    ran = headcheck("start", "--all", "course")
    files = ["contents.ipynb", *(f"{exercise.slug}.ipynb" for exercise in ALL)]
    assert ran.out.splitlines() == [f"wrote {Path('course') / name}" for name in files]
    assert "nothing was written" in one_line(headcheck("start", "--all", "course"))


@pytest.mark.parametrize("words", [(), ("a", "b", "c"), ("--all", "a", "b")])
def test_start_lists_its_arguments(headcheck: Command, words: tuple[str, ...]) -> None:
    ran = headcheck("start", *words)
    assert ran.code == 2
    assert "write start SLUG [DIRECTORY], or start --all [DIRECTORY]" in ran.err


def test_start_writes_a_starter_once(headcheck: Command) -> None:
    first = headcheck("start", "causal_attention", "new/folder")
    path = Path("new/folder/causal_attention.ipynb")
    assert (first.code, first.out) == (0, f"wrote {path}\n")
    nbformat.validate(nbformat.reads(path.read_text(), as_version=4))

    path.write_text("my answer")
    assert "is already there, and may hold an answer" in one_line(
        headcheck("start", "causal_attention", "new/folder")
    )
    assert path.read_text() == "my answer"


def test_start_writes_a_module_when_asked_and_it_earns_nothing_yet(headcheck: Command) -> None:
    assert headcheck("start", "simplified_attention", "--form", "py").code == 0
    ran = headcheck("check", "simplified_attention.py", "--format", "json")
    assert ran.code == 1
    [record] = from_json(ran.out).submissions
    assert (record.exercise, record.score) == ("simplified_attention", 0)
