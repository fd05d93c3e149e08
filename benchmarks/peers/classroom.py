"""A class of made-up students who answer `multi_head_attention`: half of them right, half wrong.

Answers come from the bank beside the exercise, spread over it by the alphabet, always the same
ones; where there are fewer answers than students, neighbours share one. No two notebooks are equal.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode, v4

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import Answer, AnswerKind
from headcheck.grader.audit.matrix import load_answers

EXERCISE = BY_SLUG["multi_head_attention"]

TRY_CELL = """\
import torch

torch.manual_seed(123)
tokens = torch.randn(2, 5, 6)
attention = MultiHeadAttention(6, 8, 5, 0.0, 2)
print(attention(tokens).shape)"""
"""How students see for themselves that something comes out."""


@dataclass(frozen=True)
class SimulatedStudent:
    """Whoever handed in an answer."""

    name: str
    answer: Answer

    @property
    def is_right(self) -> bool:
        return not self.answer.is_wrong

    @property
    def cells(self) -> list[str]:
        """The code of the notebook: imports and constants, each definition, and a try."""
        return [*_split_cells(self.answer.source), TRY_CELL]

    def make_notebook(self, more: Sequence[NotebookNode] = ()) -> NotebookNode:
        """What is handed in, as Jupyter saves it; `more` cells are those of a course."""
        title = v4.new_markdown_cell(f"# {EXERCISE.title}\n\n{self.name}")
        code = [v4.new_code_cell(cell) for cell in self.cells]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        known = {"kernelspec": kernel, "language_info": {"name": "python"}}
        made: NotebookNode = v4.new_notebook(cells=[title, *code, *more], metadata=known)
        return made

    def make_module(self) -> str:
        """The same as a module."""
        return "\n\n\n".join([f"# {self.name}", *self.cells]) + "\n"


def make_class(count: int) -> list[SimulatedStudent]:
    """So many students; right and wrong ones take turns."""
    known = load_answers(EXERCISE)
    right = _spread(
        [a for a in known if a.kind in (AnswerKind.SOLUTION, AnswerKind.RIGHT)], count - count // 2
    )
    wrong = _spread([a for a in known if a.kind is AnswerKind.WRONG], count // 2)
    turns = [right[i // 2] if i % 2 == 0 else wrong[i // 2] for i in range(count)]
    return [SimulatedStudent(f"student{i:04}", answer) for i, answer in enumerate(turns)]


def _spread(found: Sequence[Answer], count: int) -> list[Answer]:
    return [found[(2 * i + 1) * len(found) // (2 * count)] for i in range(count)]


def _split_cells(source: str) -> Iterator[str]:
    """Every class and function begins a cell of its own."""
    lines = source.splitlines()
    starts = [0]
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef):
            first = [statement.lineno, *(each.lineno for each in statement.decorator_list)]
            starts.append(min(first) - 1)
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield "\n".join(lines[start:end]).strip("\n")


def write_modules(students: Sequence[SimulatedStudent], folder: Path) -> None:
    """A folder for each, with what was handed in as `submission.py`."""
    for student in students:
        student_folder = folder / student.name
        student_folder.mkdir(parents=True)
        (student_folder / "submission.py").write_text(student.make_module(), encoding="utf-8")


def write_solutions(folder: Path, count: int) -> None:
    """A new folder with so many modules: the solution, each time as other code.

    The same code would be judged only once.
    """
    folder.mkdir()
    for i in range(count):
        text = f"{EXERCISE.solution}\n\ndef number_{i}():\n    return {i}\n"
        (folder / f"s{i:04}.py").write_text(text, encoding="utf-8")
