"""Make the starters of an exercise from its solution: a module and a notebook.

`solution.py` is their only source. It has four markers:

    # BEGIN SOLUTION, # END SOLUTION    the student writes what is between them
    # %%                                a code cell of the notebook begins
    # %% [markdown]                     a Markdown cell begins, written as comments

Students get everything outside of the solution. The starter as a module and the
starter as a notebook differ only in their form.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from headcheck.exercises.exercise import Exercise

if TYPE_CHECKING:  # imported where needed: it takes a sixth of a second
    from nbformat import NotebookNode

BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"
CODE, MARKDOWN = "# %%", "# %% [markdown]"
PLACEHOLDER = "...  # your code here"

INSTALL_TEMPLATE = """\
# Installs headcheck if it is missing, as on Colab or Kaggle. An installed torch stays.
import importlib.util, subprocess, sys

if importlib.util.find_spec("headcheck") is None:
    command = [sys.executable, "-m", "pip", "install", "-q", {requirement!r}]
    subprocess.run(command, check=True)"""
CHECK_TEMPLATE = """\
## Check

Run the next cell as often as you like: it checks your present definitions above. Hand
in the file. To check the file, save it and run in a terminal:

    {command}"""

CONTENTS_TEMPLATE = """\
# Attention by hand

Every exercise builds on those before it. Begin with the first, and go on when its check passes.

| | exercise | you write |
|--:|---|---|
{rows}

In a notebook, read the statement, write your code, and run the last cell: it checks what you have
defined. Hints are folded up below the code; open one when you are stuck, and try again before you
open the next.

In a terminal, `headcheck check FILE` checks a saved file, `headcheck show SLUG` prints a statement,
and `headcheck hint SLUG` a hint. `headcheck list` names the exercises."""

StarterForm = Literal["ipynb", "py", "both"]
"""A notebook, a module, or both."""


@dataclass(frozen=True, slots=True)
class StarterCell:
    """A piece of the source between two markers, line by line."""

    marker: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The source of the notebook's cell."""
        lines = self.lines if self.marker == CODE else map(_uncomment, self.lines)
        return "\n".join(lines).strip("\n")

    def to_notebook_cell(self) -> "NotebookNode":
        """Return the cell of a notebook."""
        from nbformat import v4

        code, text = self.marker == CODE, self.text
        cell: NotebookNode = v4.new_code_cell(text) if code else v4.new_markdown_cell(text)
        return cell


def render_module(exercise: Exercise) -> str:
    """Return the starter as the text of a Python module.

    Raises ValueError if the markers in `solution.py` do not match.
    """
    head = (
        f'"""{exercise.title}.\n\n'
        f"Read what is asked:  headcheck show {exercise.slug}\n"
        f"Check your answer:   {_write_command(exercise, 'py')}\n"
        f"When you are stuck:  headcheck hint {exercise.slug}\n"
        '"""\n'
    )
    body = "\n".join("\n".join((cell.marker, *cell.lines)) for cell in _split_cells(exercise))
    return f"{head}\n{body.rstrip()}\n"


def list_unwritten(module: str) -> tuple[str, ...]:
    """Return the names of the definitions of a starter that the student writes."""
    lines = module.splitlines()
    return tuple(
        node.name
        for node in ast.parse(module).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        if any(line.strip() == PLACEHOLDER for line in lines[node.lineno - 1 : node.end_lineno])
    )


def render_notebook(exercise: Exercise, requirement: str = "") -> str:
    """Return the starter as the text of a notebook, nbformat 4.5.

    It has the statement, the starter's cells, the folded hints, and a cell that checks the answer.
    With a `requirement` for pip it begins with a cell that installs this if headcheck is missing.
    Raises ValueError if the markers in `solution.py` do not match.
    """
    from nbformat import v4

    install = [INSTALL_TEMPLATE.format(requirement=requirement)] if requirement else []
    return _build_notebook(
        [
            *map(v4.new_code_cell, install),
            v4.new_markdown_cell(exercise.statement.strip()),
            *(cell.to_notebook_cell() for cell in _split_cells(exercise)),
            v4.new_markdown_cell(_fold_hints(exercise.hints)),
            v4.new_markdown_cell(CHECK_TEMPLATE.format(command=_write_command(exercise, "ipynb"))),
            v4.new_code_cell(f"from headcheck import check\n\ncheck({_write_arguments(exercise)})"),
        ]
    )


def _write_command(exercise: Exercise, ending: str) -> str:
    """Return the command that checks the starter; a course's own exercises are files beside it."""
    named = "" if exercise.is_ours else f" --exercise {exercise.slug}"
    return f"headcheck check {exercise.slug}.{ending}{named}"


def _write_arguments(exercise: Exercise) -> str:
    named = "" if exercise.is_ours else f', exercise="{exercise.slug}"'
    return f"{exercise.contract.name}{named}"


def _build_notebook(cells: "list[NotebookNode]") -> str:
    from nbformat import v4

    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # nbformat's own are random
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return f"{v4.writes(v4.new_notebook(cells=cells, metadata=metadata))}\n"


def _build_page(text: str) -> str:
    """Return a notebook of one Markdown cell."""
    from nbformat import v4

    return _build_notebook([v4.new_markdown_cell(text)])


def _fold_hints(hints: Sequence[str]) -> str:
    """Fold each hint; without the blank lines its Markdown would not be rendered."""
    each = (
        f"<details>\n<summary>Hint {number}</summary>\n\n{hint}\n\n</details>"
        for number, hint in enumerate(hints, 1)
    )
    return "\n\n".join(("## Hints", *each))


def render_contents(exercises: Sequence[Exercise], *, form: StarterForm) -> str:
    """List the series in teaching order, as Markdown with a link to every file of this form."""
    endings = _list_endings(form)
    rows = "\n".join(
        f"| {number} | {_render_links(exercise, endings)} | `{exercise.contract.name}` |"
        for number, exercise in enumerate(exercises, 1)
    )
    return CONTENTS_TEMPLATE.format(rows=rows)


def _render_links(exercise: Exercise, endings: Sequence[str]) -> str:
    first, *others = (f"{exercise.slug}.{ending}" for ending in endings)
    also = "".join(f" ([{other}]({other}))" for other in others)
    return f"[{exercise.title}]({first}){also}"


def write_starter(
    exercise: Exercise, directory: Path, *, form: StarterForm, requirement: str = ""
) -> list[Path]:
    """Write one starter or both into a directory, which is created if it is missing.

    `requirement` is what a notebook installs. Raises FileExistsError and writes nothing if a file
    exists, because it may hold an answer.
    """
    return _write_files(_render_starters(exercise, directory, form, requirement), directory)


def write_starters(
    exercises: Sequence[Exercise], directory: Path, *, form: StarterForm, requirement: str = ""
) -> list[Path]:
    """Write a table of contents and the starters of a series; return their paths in this order.

    `requirement` is what a notebook installs. Raises FileExistsError, and writes nothing, if one of
    the files exists.
    """
    contents = render_contents(exercises, form=form)
    if form == "py":
        files = {directory / "contents.md": contents}
    else:
        files = {directory / "contents.ipynb": _build_page(contents)}
    for exercise in exercises:
        files |= _render_starters(exercise, directory, form, requirement)
    return _write_files(files, directory)


def _list_endings(form: StarterForm) -> Sequence[str]:
    return ("ipynb", "py") if form == "both" else (form,)


def _render_starters(
    exercise: Exercise, directory: Path, form: StarterForm, requirement: str
) -> dict[Path, str]:
    return {
        directory / f"{exercise.slug}.{ending}": (
            render_module(exercise) if ending == "py" else render_notebook(exercise, requirement)
        )
        for ending in _list_endings(form)
    }


def _write_files(files: Mapping[Path, str], directory: Path) -> list[Path]:
    for path in files:
        if path.exists():
            raise FileExistsError(
                f"{path} is already there, and may hold an answer: nothing was written. "
                "Move or rename it, or choose another directory."
            )
    directory.mkdir(parents=True, exist_ok=True)
    begun: list[Path] = []
    try:
        for path, text in files.items():
            with path.open("x", encoding="utf-8", newline="\n") as file:
                begun.append(path)
                file.write(text)
    except OSError as error:  # half a notebook would block the next attempt
        for path in begun:
            path.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from None
    return list(files)


def _split_cells(exercise: Exercise) -> list[StarterCell]:
    """Return the non-empty cells, without the solution and without the title."""
    blocks: list[tuple[str, list[str]]] = [(CODE, [])]
    for line in _strip_solution(exercise):
        if line in (CODE, MARKDOWN):
            blocks.append((line, []))
        else:
            blocks[-1][1].append(line)
    cells = (StarterCell(marker, tuple(_strip_title(lines))) for marker, lines in blocks)
    return [cell for cell in cells if cell.text]


def _strip_title(lines: list[str]) -> list[str]:
    """Remove the title, which the statement and the module's docstring already have."""
    if not (lines and _uncomment(lines[0]).startswith("# ")):
        return lines
    return list(dropwhile(lambda line: not _uncomment(line), lines[1:]))


def _uncomment(line: str) -> str:
    return line.removeprefix("#").removeprefix(" ")


def _strip_solution(exercise: Exercise) -> Iterator[str]:
    """Yield the lines of the source, with one line in place of each part of the solution."""
    path = exercise.folder / "solution.py"
    opened: int | None = None
    regions = 0
    for number, line in enumerate(exercise.solution.splitlines(), start=1):
        marker = line.strip()
        if marker == BEGIN:
            if opened is not None:
                raise ValueError(
                    f"{path}, line {number}: `{BEGIN}` inside the region that line {opened} began; "
                    f"end that one first, with `{END}`"
                )
            opened, regions = number, regions + 1
            yield line.replace(BEGIN, PLACEHOLDER)
        elif marker == END:
            if opened is None:
                raise ValueError(f"{path}, line {number}: `{END}` without a `{BEGIN}` before it")
            opened = None
        elif opened is None:
            yield line
    if opened is not None:
        raise ValueError(f"{path}, line {opened}: `{BEGIN}` is never followed by `{END}`")
    if not regions:
        raise ValueError(
            f"{path}: no part is marked for the student; put `{BEGIN}` before the answer "
            f"and `{END}` after it"
        )
