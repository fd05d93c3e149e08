"""Headcheck, and what runs a submission as a module: pytest, unittest, Hypothesis."""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import nbformat

from benchmarks.peers.classroom import SimulatedStudent, write_modules
from benchmarks.spending import ROOT, Command, Usage
from headcheck.exercises import BY_SLUG
from headcheck.properties.terms.depth import Depth

EXERCISE = BY_SLUG["multi_head_attention"]

SUITE = Path(__file__).parent / "suite"
CHECK_COUNT = "5"
NO_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


class Tool(Protocol):
    """Something that grades a class."""

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> str:
        """The package without which it cannot run."""

    @property
    def checks(self) -> str:
        """How many checks a submission gets."""

    @property
    def ok_statuses(self) -> tuple[int, ...]:
        """The exit statuses that mean that it graded."""

    def lay_out(
        self, students: Sequence[SimulatedStudent], folder: Path, home: Path
    ) -> list[Command]:
        """Write into an empty folder what it starts from; the commands that grade, in order."""

    def find_passed(
        self, students: Sequence[SimulatedStudent], folder: Path, ran: Sequence[Usage]
    ) -> set[str]:
        """The names of those whose answers it took for right."""


@dataclass(frozen=True)
class Headcheck:
    """The whole class in one call, strangers' code confined, as many jobs as it chooses."""

    name: str = "headcheck grade"
    needs: str = "headcheck"
    ok_statuses: tuple[int, ...] = (0, 1)

    @property
    def checks(self) -> str:
        plan = EXERCISE.at(Depth.USUAL).plan_cases()
        return f"{len(plan)} claims, {sum(map(len, plan.values()))} cases"

    def lay_out(
        self, students: Sequence[SimulatedStudent], folder: Path, home: Path
    ) -> list[Command]:
        for student in students:
            nbformat.write(student.make_notebook(), folder / f"{student.name}.ipynb")
        words = ("grade", str(folder), "--exercise", EXERCISE.slug, "--format", "json")
        return [Command((sys.executable, "-m", "headcheck", *words), ROOT)]

    def find_passed(
        self, students: Sequence[SimulatedStudent], folder: Path, ran: Sequence[Usage]
    ) -> set[str]:
        records = json.loads(ran[0].stdout)["submissions"]
        return {record["student"] for record in records if record["status"] == "passed"}


@dataclass(frozen=True)
class PerProcess:
    """A fresh process for every submission, started where its module is; 0 says it is right."""

    name: str
    words: tuple[str, ...]
    """what Python is started with; `TESTS` stands for the folder of the suite"""
    checks: str = CHECK_COUNT
    needs: str = "pytest"
    ok_statuses: tuple[int, ...] = (0, 1)

    def lay_out(
        self, students: Sequence[SimulatedStudent], folder: Path, home: Path
    ) -> list[Command]:
        write_modules(students, folder)
        tests = _copy_suite(folder)
        words = (sys.executable, *(word.replace("TESTS", str(tests)) for word in self.words))
        more = {**NO_PLUGINS, "PYTHONPATH": str(tests)}
        return [Command(words, folder / student.name, more) for student in students]

    def find_passed(
        self, students: Sequence[SimulatedStudent], folder: Path, ran: Sequence[Usage]
    ) -> set[str]:
        return {s.name for s, spent in zip(students, ran, strict=True) if spent.status == 0}


@dataclass(frozen=True)
class SharedProcesses:
    """The whole class in two processes of pytest-xdist; nothing keeps submissions apart."""

    name: str = "pytest -n 2, whole class, no isolation"
    checks: str = CHECK_COUNT
    needs: str = "xdist"
    ok_statuses: tuple[int, ...] = (0, 1)

    def lay_out(
        self, students: Sequence[SimulatedStudent], folder: Path, home: Path
    ) -> list[Command]:
        write_modules(students, folder)
        tests = _copy_suite(folder) / "test_class.py"
        options = ("-n", "2", "-p", "xdist", "-p", "no:cacheprovider", "-q", "-rf")
        words = (sys.executable, "-m", "pytest", *options, "--tb=no", str(tests))
        return [Command(words, folder, NO_PLUGINS)]

    def find_passed(
        self, students: Sequence[SimulatedStudent], folder: Path, ran: Sequence[Usage]
    ) -> set[str]:
        failed = [line for line in ran[0].stdout.splitlines() if line.startswith("FAILED")]
        return {s.name for s in students if not any(f"[{s.name}-" in line for line in failed)}


def _copy_suite(folder: Path) -> Path:
    """The tests of the course, away from this project's own settings of pytest."""
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(SUITE, folder / "tests", ignore=ignored))


PYTEST = ("-m", "pytest", "-p", "no:cacheprovider", "-q")
PYTEST_ALONE = PerProcess("pytest, a process each", (*PYTEST, "TESTS/test_with_pytest.py"))
UNITTEST = PerProcess(
    "unittest as on Gradescope, a process each", ("-m", "unittest", "-q", "with_unittest")
)
GIVEN = PerProcess(
    "plain @given, a process each",
    (*PYTEST, "TESTS/test_with_hypothesis.py"),
    checks="20 × 100 examples",
    needs="hypothesis",
)
