"""A change chooses the tests near it; what cannot be told chooses all."""

from pathlib import PurePosixPath

import pytest

from headcheck.grader.location import HEADCHECK
from tests.chosen import choose_tests, list_test_files
from tests.git_changes import ROOT

SMALL = ["grader/course", "grader/authoring", "properties/binding", "grader/batch"]
"""rooms whose changes choose less than a fifth of all test files"""


def list_rooms() -> list[str]:
    """The folders of the second level that hold modules, but those of exercises."""
    inits = HEADCHECK.glob("*/*/__init__.py")
    found = {path.parent.relative_to(HEADCHECK).as_posix() for path in inits}
    return sorted(room for room in found if not room.startswith("exercises/"))


def list_modules(room: str) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("room", list_rooms())
def test_every_module_has_tests(room: str) -> None:
    modules = list_modules(room)
    assert modules and not [module for module in modules if not choose_tests([module])]


@pytest.mark.parametrize("room", SMALL)
def test_a_change_in_one_room_leaves_most_tests_out(room: str) -> None:
    for module in list_modules(room):
        assert len(choose_tests([module])) < len(list_test_files()) / 5, module


def test_courses_and_binding_do_not_run_each_other() -> None:
    binding = choose_tests(list_modules("properties/binding"))
    course = choose_tests(list_modules("grader/course"))
    assert not [each for each in binding if each.startswith("tests/grader/course/")]
    assert not [each for each in course if each.startswith("tests/properties/")]


@pytest.mark.parametrize(
    "path",
    ["pyproject.toml", "tox.ini", "tests/conftest.py", "grader/fault.py", "properties/property.py"],
)
def test_what_concerns_all_chooses_all(path: str) -> None:
    assert choose_tests([path]) == set(list_test_files())


def test_documents_choose_none() -> None:
    assert not choose_tests(["README.md", "docs/points.md", "docs/adr/0001-x.md"])


def test_a_helper_chooses_who_uses_it() -> None:
    chosen = choose_tests(["tests/properties/evidence.py"])
    assert "tests/properties/test_tolerance_of_parts.py" in chosen
    assert {PurePosixPath(each).parts[1] for each in chosen} == {"properties"}


def test_a_test_chooses_itself() -> None:
    assert choose_tests(["tests/test_chosen.py"]) == {"tests/test_chosen.py"}


def test_data_choose_the_tests_of_their_room() -> None:
    chosen = choose_tests(["grader/report/render/templates/base.html.j2"])
    assert "tests/grader/report/test_render_html.py" in chosen
    assert len(chosen) < len(list_test_files()) / 3


def test_an_answer_chooses_the_banks() -> None:
    chosen = choose_tests(["exercises/alibi/answers/faults.toml"])
    assert {"/".join(each.split("/")[:2]) for each in chosen} == {
        "tests/exercises",
        "tests/golden",
        "tests/kinds",
    }
