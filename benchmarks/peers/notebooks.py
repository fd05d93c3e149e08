"""What runs a submission as the notebook that it is: nbclient, nbgrader, otter-grader."""

import ast
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode, v4

from benchmarks import spending
from benchmarks.peers.classroom import SimulatedStudent
from benchmarks.peers.tools import CHECK_COUNT, SUITE
from benchmarks.spending import Command, Usage

CHECKS = (SUITE / "checks.py").read_text(encoding="utf-8")
CALLS = [
    f"{each.name}(MultiHeadAttention)"
    for each in ast.parse(CHECKS).body
    if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
]
ASSIGNMENT = "attention"
STUB = """\
from torch import nn


class MultiHeadAttention(nn.Module):
    pass"""
ANSWER = {
    "grade": False,
    "locked": False,
    "solution": True,
    "task": False,
    "grade_id": "answer",
    "schema_version": 3,
}
"""What nbgrader keeps about the cell that the student fills in."""


@dataclass(frozen=True)
class NbClient:
    """The notebook is executed to its end, the checks in a last cell; an error says it is wrong."""

    name: str = "nbclient, a process each"
    checks: str = CHECK_COUNT
    needs: str = "nbclient"
    ok_statuses: tuple[int, ...] = (0, 1)

    def lay_out(
        self, students: Sequence[SimulatedStudent], folder: Path, home: Path
    ) -> list[Command]:
        more = [v4.new_code_cell(CHECKS), v4.new_code_cell("\n".join(CALLS))]
        for student in students:
            nbformat.write(student.make_notebook(more), folder / f"{student.name}.ipynb")
        execute = _find_script("jupyter-execute")
        return [Command((execute, f"{student.name}.ipynb"), folder) for student in students]

    def find_passed(
        self, students: Sequence[SimulatedStudent], folder: Path, ran: Sequence[Usage]
    ) -> set[str]:
        return {s.name for s, spent in zip(students, ran, strict=True) if spent.status == 0}


@dataclass(frozen=True)
class NbGrader:
    """`nbgrader autograde`: students' notebooks with the course's cells, marks in a database."""

    name: str
    whole_class: bool
    checks: str = CHECK_COUNT
    needs: str = "nbgrader"
    ok_statuses: tuple[int, ...] = (0,)

    def lay_out(
        self, students: Sequence[SimulatedStudent], folder: Path, home: Path
    ) -> list[Command]:
        _write(
            v4.new_notebook(cells=[_make_cell(STUB, ANSWER), *_make_check_cells()]),
            folder / "source",
        )
        for student in students:
            notebook = student.make_notebook(_make_check_cells())
            _mark_answer_cell(notebook)
            _write(notebook, folder / "submitted" / student.name)
        program = _find_script("nbgrader")
        spending.run(Command((program, "generate_assignment", ASSIGNMENT), folder), home)
        words = (program, "autograde", ASSIGNMENT)
        if self.whole_class:
            return [Command(words, folder)]
        return [Command((*words, "--student", student.name), folder) for student in students]

    def find_passed(
        self, students: Sequence[SimulatedStudent], folder: Path, ran: Sequence[Usage]
    ) -> set[str]:
        return {s.name for s in students if _has_full_marks(folder / "autograded" / s.name)}


@dataclass(frozen=True)
class Otter:
    """`otter run`, which grades one notebook without a container, with `otter generate`'s zip."""

    name: str = "otter run, a process each"
    checks: str = CHECK_COUNT
    needs: str = "otter"
    ok_statuses: tuple[int, ...] = (0,)

    def lay_out(
        self, students: Sequence[SimulatedStudent], folder: Path, home: Path
    ) -> list[Command]:
        tests = folder / "tests"
        tests.mkdir()
        (tests / "attention.py").write_text((SUITE / "with_otter.py").read_text())
        (folder / "checks.py").write_text(CHECKS)
        program = _find_script("otter")
        made = ("generate", "-t", "tests", "-o", "autograder.zip", "checks.py")
        spending.run(Command((program, *made), folder), home)
        for student in students:
            nbformat.write(student.make_notebook(), folder / f"{student.name}.ipynb")
            (folder / student.name).mkdir()
        return [
            Command(
                (program, "run", "-a", "autograder.zip", "-o", s.name, f"{s.name}.ipynb"), folder
            )
            for s in students
        ]

    def find_passed(
        self, students: Sequence[SimulatedStudent], folder: Path, ran: Sequence[Usage]
    ) -> set[str]:
        return {s.name for s in students if _has_all_points(folder / s.name / "results.json")}


def _find_script(name: str) -> str:
    """A command of the environment that this Python belongs to."""
    return str(Path(sys.executable).with_name(name))


def _write(notebook: NotebookNode, folder: Path) -> None:
    place = folder / ASSIGNMENT
    place.mkdir(parents=True)
    nbformat.write(notebook, place / f"{ASSIGNMENT}.ipynb")


def _make_check_cells() -> list[NotebookNode]:
    """The cells of the course: what checks, and a mark for each check."""
    cells = [_make_course_cell(CHECKS, "checks", grade=False)]
    return [
        *cells,
        *(_make_course_cell(call, f"mark{i}", grade=True) for i, call in enumerate(CALLS)),
    ]


def _make_course_cell(source: str, name: str, *, grade: bool) -> NotebookNode:
    points = {"points": 1} if grade else {}
    known = {"grade": grade, "locked": True, "solution": False, "task": False, **points}
    return _make_cell(source, {**known, "grade_id": name, "schema_version": 3})


def _make_cell(source: str, known: Mapping[str, object]) -> NotebookNode:
    cell: NotebookNode = v4.new_code_cell(source, metadata={"nbgrader": dict(known)})
    return cell


def _mark_answer_cell(notebook: NotebookNode) -> None:
    """Mark the cell with the class as the one in which the answer was to be written."""
    answer = next(cell for cell in notebook.cells if "class MultiHeadAttention" in cell.source)
    answer.metadata["nbgrader"] = dict(ANSWER)


def _has_full_marks(folder: Path) -> bool:
    """Whether no cell that is worth a mark raised. Raises FileNotFoundError when not graded."""
    notebook = nbformat.read(folder / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", as_version=4)
    marks = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    ran = len(marks) == len(CALLS) and all(cell.execution_count for cell in marks)
    return ran and not any(o.output_type == "error" for cell in marks for o in cell.outputs)


def _has_all_points(results: Path) -> bool:
    tests = json.loads(results.read_text(encoding="utf-8"))["tests"]
    marked = [test for test in tests if "score" in test]
    return bool(marked) and all(test["score"] == test["max_score"] for test in marked)


NBGRADER_EACH = NbGrader("nbgrader autograde, a student a call", whole_class=False)
NBGRADER = NbGrader("nbgrader autograde, whole class", whole_class=True)
