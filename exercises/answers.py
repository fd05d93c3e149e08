"""The answer bank of an exercise: right and wrong submissions, each with its source.

A file in `answers/right` or `answers/wrong` is an answer; its docstring describes its style or its
fault. Most wrong answers are other answers into which `answers/faults.toml` puts one fault.

    [no_scale]
    base = "right/plain.py"
    why = "The scores are not divided by the root of the key width. (named: no_scale)"
    edits = [{replace = 'scores / keys.shape[-1] ** 0.5', by = 'scores'}]

The base is another answer, by its path in `answers/`, or `solution.py`. `why` replaces its
docstring, and the edits are made below it, in order. The text that an edit replaces must occur
once, or `count` times. Therefore no change of a base can repair or move a fault unnoticed.
"""

import difflib
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from headcheck.exercises.exercise import Exercise
from headcheck.exercises.toml_lines import Place, parse, read_text

DOCSTRING = re.compile(r'""".*?"""', re.DOTALL)
KINDS = ("right", "wrong")
SHOWN = 60  # the most characters of a text that a message quotes


class BadBank(ValueError):
    """The bank cannot be read; the message names the file, the entry and the problem."""


class AnswerNotFound(LookupError):
    """There is no answer of that name; the message suggests the nearest."""


class AnswerKind(StrEnum):
    """The origin of an answer, which determines the verdict that is expected."""

    SOLUTION = "solution"
    RIGHT = "right"
    WRONG = "wrong"
    MUTANT = "mutant"
    EQUIVALENT = "equivalent"


@dataclass(frozen=True, slots=True)
class Answer:
    """A right or wrong answer; one line describes its style or its one fault."""

    exercise: str
    kind: AnswerKind
    name: str
    description: str
    source: str

    @property
    def is_wrong(self) -> bool:
        """Whether a property should fail. An equivalent mutant is right."""
        return self.kind in (AnswerKind.WRONG, AnswerKind.MUTANT)


@functools.cache
def load_bank(exercise: Exercise) -> tuple[Answer, ...]:
    """Load the right answers to an exercise, then the wrong ones, by name. Raises BadBank."""
    folder = exercise.folder / "answers"
    if not folder.is_dir():
        raise BadBank(
            f"{folder}: there is no such folder: create it with right/, wrong/ or faults.toml"
        )
    faults = _load_faults(folder)
    files = [f"{kind}/{path.name}" for kind in KINDS for path in (folder / kind).glob("*.py")]
    bank = []
    for path in sorted(map(Path, [*files, *faults])):
        source = _read_source(folder, faults, path.as_posix())
        line = source.partition("\n")[0].strip("\"'# ")
        bank.append(Answer(exercise.slug, AnswerKind(path.parent.name), path.stem, line, source))
    names = [answer.name for answer in bank]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadBank(f"{folder}: two answers are called {twice[0]!r}; rename one")
    return tuple(bank)


def list_answers(exercise: Exercise, kind: str) -> list[Answer]:
    """List the right or the wrong answers to an exercise, by name. Raises BadBank."""
    return [answer for answer in load_bank(exercise) if answer.kind == kind]


def find_answer(exercise: Exercise, name: str) -> Answer:
    """Return the answer of that name. Raises BadBank, and AnswerNotFound with the nearest name."""
    known = {answer.name: answer for answer in load_bank(exercise)}
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"see `headcheck bank show {exercise.slug}`"
    raise AnswerNotFound(f"no answer to {exercise.slug} is called {name!r}; {hint}")


def write_answer(answer: Answer, folder: Path) -> Path:
    """Write an answer into an existing folder, as a module of its name."""
    path = folder / f"{answer.name}.py"
    path.write_text(answer.source, encoding="utf-8", newline="\n")
    return path


def _load_faults(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """Read the entries of `faults.toml`, if any, by the paths that they would have as files."""
    file = folder / "faults.toml"
    if not file.exists():
        return {}
    faults = parse(Place(file, read_text(file, "is gone", BadBank), error=BadBank))
    for name, fault in faults.items():
        match fault:
            case {"base": str(), "why": str(), "edits": [_, *_], **others} if not others:
                continue
        raise BadBank(f"{file}: [{name}] must have a base, a why, edits, and nothing else")
    return {f"wrong/{name}.py": fault for name, fault in faults.items()}


def _read_source(
    folder: Path, faults: Mapping[str, Mapping[str, Any]], path: str, above: tuple[str, ...] = ()
) -> str:
    """Return the source of an answer, or of the base of the answers `above`."""
    where = f"{folder / 'faults.toml'}: [{Path([*above, path][0]).stem}]"
    if path in above:
        raise BadBank(f"{where} is made from itself: {' from '.join([*above, path])}")
    if path not in faults:
        file = folder.parent / path if path == "solution.py" else folder / path
        if not file.is_file():
            raise BadBank(f"{where} has no base: there is no {path}")
        return file.read_text(encoding="utf-8")
    base = _read_source(folder, faults, faults[path]["base"], (*above, path))
    docstring = DOCSTRING.match(base)
    code = base[docstring.end() :] if docstring else f"\n\n{base}"
    for edit in faults[path]["edits"]:
        code = _make_edit(f"{folder / 'faults.toml'}: [{Path(path).stem}]", code, edit)
    return f'"""{faults[path]["why"]}"""{code}'


def _make_edit(where: str, code: str, edit: Any) -> str:
    match edit:
        case {"replace": str(old), "by": str(new), **others} if old and others.keys() <= {"count"}:
            expected, count = others.get("count", 1), code.count(old)
        case _:
            raise BadBank(f"{where}: an edit must have `replace` and `by`, and may have a `count`")
    if count != expected:
        shown = repr(old if len(old) <= SHOWN else f"{old[:SHOWN]}…")
        raise BadBank(f"{where} looks for {shown} {expected} times, and finds it {count} times")
    return code.replace(old, new)
