"""The answers of an authored exercise: the choice of those to keep, and their files."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from headcheck.exercises import Exercise
from headcheck.exercises.answers import Answer, AnswerKind
from headcheck.exercises.starter import render_module
from headcheck.grader.audit.mutants import Mutant, generate_mutants
from headcheck.grader.authoring.judging import DOES_NOT_END, ENDS_ITS_PROCESS, Judged
from headcheck.grader.authoring.made_mistakes import make_mistakes

MOST_KEPT = 24
"""at most this many wrong answers are kept as files; `audit --mutants` makes the others again"""
FEWEST_KEPT = 8
GOLDEN = (5**0.5 - 1) / 2
"""the golden ratio minus one: the fractions of its multiples fill the interval from 0 to 1 evenly
"""
NEVER_KEPT = (DOES_NOT_END, ENDS_ITS_PROCESS)
"""outcomes of answers that are not kept, because an audit could not judge them"""
SAME = "its outputs and gradients are those of the solution on every case"


def list_changes(exercise: Exercise) -> list[Answer]:
    """Return small changes of the solution, each with its own code: the starter, then mutants."""
    changes = [Mutant("the starter, as it is handed out", render_module(exercise))]
    changes += [*make_mistakes(exercise.solution), *generate_mutants(exercise)]
    unique = {change.source: change for change in reversed(changes)}
    return [
        Answer(exercise.slug, AnswerKind.MUTANT, each.name, "a small change", each.source)
        for each in reversed(unique.values())
    ]


def spread(changes: Sequence[Answer]) -> list[Answer]:
    """Reorder changes so that any prefix is an even sample of them; the first stays first."""
    places = sorted(range(1, len(changes)), key=lambda place: place * GOLDEN % 1)
    return [*changes[:1], *(changes[place] for place in places)]


def choose_kept(judged: Sequence[Judged]) -> list[Judged]:
    """Return the changes to keep as wrong answers: one per mistake and one per property."""
    caught = [each for each in judged if each.caught_by not in (None, *NEVER_KEPT)]
    kept: dict[str, Judged] = {}
    for each in caught:
        if each.mistake is not None:
            kept.setdefault(each.mistake, each)
    for each in caught:
        if each.mistake is None and len(kept) < MOST_KEPT:
            kept.setdefault(f"breaks {each.caught_by}", each)
    for each in caught:
        if len(kept) < FEWEST_KEPT and each not in kept.values():
            kept[each.answer.name] = each
    return list(kept.values())


def write_right(folder: Path, variants: Iterable[Answer]) -> None:
    """Write right answers to files; the first line of each names its style."""
    (folder / "right").mkdir(parents=True, exist_ok=True)
    for answer in variants:
        (folder / "right" / f"{answer.name}.py").write_text(answer.source, encoding="utf-8")


def write_wrong(folder: Path, kept: Iterable[Judged]) -> None:
    """Write wrong answers to files; the first line of each names its fault."""
    (folder / "wrong").mkdir(parents=True, exist_ok=True)
    names: set[str] = set()
    for each in kept:
        name = _make_name(each, names)
        names.add(name)
        change = each.answer.name.replace("\\", "/").replace('"', "'").splitlines()[0]
        tag = "" if each.mistake is None else f" (named: {each.mistake})"
        text = f'"""The change: {change}.{tag}"""\n\n{each.answer.source}\n'
        (folder / "wrong" / f"{name}.py").write_text(text, encoding="utf-8")


def _make_name(judged: Judged, taken: set[str]) -> str:
    """Return a file name: the mistake's name, or the change in words."""
    words = judged.mistake or re.sub(r"\W+", "_", judged.answer.name.lower()).strip("_")[:48]
    name = words.strip("_") or "change"
    numbers = (f"{name}_{number}" for number in range(2, 1000))
    return name if name not in taken else next(n for n in numbers if n not in taken)


def write_equivalents(folder: Path, exercise: Exercise, judged: Sequence[Judged]) -> list[str]:
    """Write `equivalents.toml` if any change is equivalent; return the names of these changes."""
    mutants = {mutant.name for mutant in generate_mutants(exercise)}
    names = [e.answer.name for e in judged if e.is_equivalent and e.answer.name in mutants]
    if names:
        text = "\n".join(_iter_entry(names))
        (folder / "equivalents.toml").write_text(f"{text}\n", encoding="utf-8")
    return names


def _iter_entry(names: Sequence[str]) -> Iterator[str]:
    yield "[[equivalent]]"
    yield "mutants = ["
    yield from (f"    {json.dumps(name, ensure_ascii=False)}," for name in names)
    yield "]"
    yield f"reason = {json.dumps(SAME)}"
