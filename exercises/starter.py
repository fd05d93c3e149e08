"""What a student begins with, made from an exercise's solution: as a module and as a notebook.

`solution.py` is the one source. Its lines have four markers:

    # BEGIN SOLUTION, # END SOLUTION    what stands between them is for the student to write
    # %%                                here a notebook's next code cell begins
    # %% [markdown]                     here a Markdown cell begins, written as comments

Everything else is given. The two starters differ in their form alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Literal

from nbformat import NotebookNode, v4

from exercises.exercise import Exercise

BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"
CODE, MARKDOWN = "# %%", "# %% [markdown]"
PLACEHOLDER = "...  # your code here"

CHECK_TEMPLATE = """\
## Check

Run the next cell as often as you like: it checks what is defined above, as you have it now. What
you hand in is the file. To check that, save it and run, in a terminal:

    headcheck check {slug}.ipynb"""

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
"""A notebook, a module, or one of each."""


@dataclass(frozen=True, slots=True)
class StarterCell:
    """A piece of the source between two markers, line by line."""

    marker: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """What a notebook shows of it."""
        if self.marker == CODE:
            return "\n".join(self.lines).strip("\n")
        return "\n".join(_uncomment(line) for line in self.lines).strip("\n")


def render_module(exercise: Exercise) -> str:
    """The starter as the text of a Python module.

    Raises ValueError when the markers in `solution.py` are not as they should be.
    """
    head = (
        f'"""{exercise.title}.\n\n'
        f"Read what is asked:  headcheck show {exercise.slug}\n"
        f"Check your answer:   headcheck check {exercise.slug}.py\n"
        f"When you are stuck:  headcheck hint {exercise.slug}\n"
        '"""\n'
    )
    body = "\n".join("\n".join((cell.marker, *cell.lines)) for cell in _split_cells(exercise))
    return f"{head}\n{body.rstrip()}\n"


def render_notebook(exercise: Exercise) -> str:
    """The starter as the text of a notebook, nbformat 4.5.

    The statement, the cells, the hints, each folded up, and a cell that checks what was written.
    Raises ValueError when the markers in `solution.py` are not as they should be.
    """
    return _build_notebook(
        [
            v4.new_markdown_cell(exercise.statement.strip()),
            *(_to_notebook_cell(cell) for cell in _split_cells(exercise)),
            v4.new_markdown_cell(_fold_hints(exercise.hints)),
            v4.new_markdown_cell(CHECK_TEMPLATE.format(slug=exercise.slug)),
            v4.new_code_cell(f"from grader import check\n\ncheck({exercise.contract.name})"),
        ]
    )


def _build_notebook(cells: list[NotebookNode]) -> str:
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # nbformat's own are random
    made = v4.new_notebook(
        cells=cells,
        metadata={
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
    )
    return f"{v4.writes(made)}\n"


def _fold_hints(hints: Sequence[str]) -> str:
    """Hints to be opened one by one; the blank lines let their Markdown be read as such."""
    each = (
        f"<details>\n<summary>Hint {number}</summary>\n\n{hint}\n\n</details>"
        for number, hint in enumerate(hints, 1)
    )
    return "\n\n".join(("## Hints", *each))


def render_contents(exercises: Sequence[Exercise], *, form: StarterForm) -> str:
    """The series in teaching order, as Markdown with a link to every file of this form."""
    endings = [ending for ending in RENDERERS if form in (ending, "both")]
    rows = "\n".join(
        f"| {number} | {_render_links(exercise, endings)} | `{exercise.contract.name}` |"
        for number, exercise in enumerate(exercises, 1)
    )
    return CONTENTS_TEMPLATE.format(rows=rows)


def _render_links(exercise: Exercise, endings: Sequence[str]) -> str:
    first, *others = (f"{exercise.slug}.{ending}" for ending in endings)
    also = "".join(f" ([{other}]({other}))" for other in others)
    return f"[{exercise.title}]({first}){also}"


def write_starter(exercise: Exercise, directory: Path, *, form: StarterForm) -> list[Path]:
    """Write the starter, or both, into a directory, which is made if it is missing.

    Raises FileExistsError, and writes nothing, where a file of that name is already: it may be
    somebody's answer.
    """
    return _write_files(_render_starters(exercise, directory, form), directory)


def write_starters(
    exercises: Sequence[Exercise], directory: Path, *, form: StarterForm
) -> list[Path]:
    """Write the starters of a series and a table of contents, in this order, contents first.

    Raises FileExistsError, and writes nothing, where one of the files is there already.
    """
    listed = render_contents(exercises, form=form)
    if form == "py":
        wanted = {directory / "contents.md": listed}
    else:
        wanted = {directory / "contents.ipynb": _build_notebook([v4.new_markdown_cell(listed)])}
    for exercise in exercises:
        wanted |= _render_starters(exercise, directory, form)
    return _write_files(wanted, directory)


def _render_starters(exercise: Exercise, directory: Path, form: StarterForm) -> dict[Path, str]:
    return {
        directory / f"{exercise.slug}.{ending}": make(exercise)
        for ending, make in RENDERERS.items()
        if form in (ending, "both")
    }


def _write_files(wanted: Mapping[Path, str], directory: Path) -> list[Path]:
    for path in wanted:
        if path.exists():
            raise FileExistsError(
                f"{path} is already there, and may hold an answer: nothing was written. "
                "Move or rename it, or choose another directory."
            )
    directory.mkdir(parents=True, exist_ok=True)
    begun: list[Path] = []
    try:
        for path, text in wanted.items():
            with path.open("x", encoding="utf-8", newline="\n") as file:
                begun.append(path)
                file.write(text)
    except OSError as error:  # half a notebook would be in the way of the next attempt
        for path in begun:
            path.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from None
    return list(wanted)


RENDERERS: Mapping[str, Callable[[Exercise], str]] = {"ipynb": render_notebook, "py": render_module}
"""what makes the starter that has this ending"""


def _split_cells(exercise: Exercise) -> list[StarterCell]:
    """The cells that have something in them, without the solution and without the title."""
    found: list[tuple[str, list[str]]] = [(CODE, [])]
    for line in _strip_solution(exercise):
        if line in (CODE, MARKDOWN):
            found.append((line, []))
        else:
            found[-1][1].append(line)
    cells = (StarterCell(marker, tuple(_strip_title(lines))) for marker, lines in found)
    return [cell for cell in cells if cell.text]


def _strip_title(lines: list[str]) -> list[str]:
    """Without a title: the statement has it, and so has the module's docstring."""
    if not (lines and _uncomment(lines[0]).startswith("# ")):
        return lines
    return list(dropwhile(lambda line: not _uncomment(line), lines[1:]))


def _uncomment(line: str) -> str:
    return line.removeprefix("#").removeprefix(" ")


def _to_notebook_cell(cell: StarterCell) -> NotebookNode:
    made: NotebookNode
    if cell.marker == MARKDOWN:
        made = v4.new_markdown_cell(cell.text)
    else:
        made = v4.new_code_cell(cell.text)
    return made


def _strip_solution(exercise: Exercise) -> Iterator[str]:
    """The source's lines, with every region that the student writes replaced by one line."""
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
            f"{path}: nothing is left for the student to write; put `{BEGIN}` before the answer "
            f"and `{END}` after it"
        )
