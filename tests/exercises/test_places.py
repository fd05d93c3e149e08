"""The lines that are told with a mistake contain one on which the answer differs from a right one.

They are proved by the stages that a call computes, or else found by what code looks like. Of
answers that differ from a right answer in a few lines it is known which these are. A line at which
a message stands is pinned: it has to be one of them.
"""

import ast
import difflib
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import pytest

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.exercises.answers import Answer, list_answers
from headcheck.grader.grading.diagnosis import find_code_pattern, pin_line
from headcheck.grader.grading.places.locate import locate
from headcheck.grader.grading.places.wording import tell_place
from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.code_patterns import find_code_patterns
from headcheck.grader.report.records import DiagnosisRecord, PlaceRecord
from headcheck.properties.contracts.contract import Entry
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue import ALL
from headcheck.properties.mistakes.catalogue.structure import STRUCTURAL
from headcheck.properties.violations.violation import SubmissionFailed
from tests.golden.bank import list_announced
from tests.grader.sandbox.runtimes import open_source

MISTAKES = {each.name: each for each in ALL}
ANY_MISTAKE = {each.mistake.name: each.mistake for each in STRUCTURAL} | MISTAKES
FEW_LINES = 4
PRECISION = 0.98
PINNED_PRECISION = 0.95
MOST_LINES = 3
"""the median number of lines that are told"""
UNUSED = "no_mask"
"""A mask that is made and not used is told by the line that makes it, which is no wrong one."""
SIMPLE = (ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)


@cache
def list_right_lines(slug: str) -> Sequence[list[str]]:
    exercise = BY_SLUG[slug]
    solution = (exercise.folder / "solution.py").read_text(encoding="utf-8")
    sources = (solution, *(each.source for each in list_answers(exercise, "right")))
    return [source.splitlines() for source in sources]


def list_true_lines(wrong: Sequence[str], rights: Sequence[Sequence[str]]) -> set[int]:
    """The lines on which an answer differs from the nearest right ones."""
    found = [list_changed_lines(wrong, each) for each in rights]
    nearest = min(size for _, size in found)
    return set().union(*(lines for lines, size in found if size == nearest))


def list_changed_lines(wrong: Sequence[str], right: Sequence[str]) -> tuple[set[int], int]:
    """The lines of an answer that a right one has not, or between which it has others.

    A line that is not there is one difference, and stands between two lines.
    """
    changed, gaps, left_out = set[int](), set[int](), 0
    matcher = difflib.SequenceMatcher(None, right, wrong, autojunk=False)
    for kind, _, _, start, end in matcher.get_opcodes():
        if kind == "delete" or (kind == "replace" and not any(map(str.strip, wrong[start:end]))):
            gaps |= {find_code(wrong, start, -1), find_code(wrong, start + 1, 1)}
            left_out += 1
        elif kind != "equal":
            changed |= set(range(start + 1, end + 1))
    changed -= set(range(1, 4))  # the docstring
    return (changed, len(changed)) if changed else (gaps, left_out)


def find_code(lines: Sequence[str], line: int, step: int) -> int:
    """The nearest line that is not empty, upwards or downwards."""
    while 1 < line < len(lines) and not lines[line - 1].strip():
        line += step
    return line


def widen_to_statements(source: str, lines: set[int]) -> set[int]:
    """The lines of all statements that have one of these lines."""
    simple = (node for node in ast.walk(ast.parse(source)) if isinstance(node, SIMPLE))
    spans = (set(range(node.lineno, (node.end_lineno or node.lineno) + 1)) for node in simple)
    return lines.union(*(span for span in spans if span & lines))


def open_harness(exercise: Exercise, source: str) -> Harness:
    transfer = exercise.contract.transfer or ()
    names = [exercise.contract.name, *(each.name for each in transfer)]
    return Harness(open_source(source, *names), exercise.contract)


def find_place(exercise: Exercise, answer: Answer) -> PlaceRecord | None:
    try:
        located = locate(open_harness(exercise, answer.source), ())
    except SubmissionFailed:
        return None
    return None if located is None else tell_place(located)


def find_pinned_line(exercise: Exercise, answer: Answer) -> int | None:
    """The line at which the mistake that is named stands, or what is told of the place."""
    place, names = find_place(exercise, answer), list_announced(answer)
    mistake = ANY_MISTAKE.get(names[0]) if len(names) == 1 else None
    if mistake is None:
        return None if place is None or place.proved is None else place.proved.line
    source = read_source(answer.source.encode(), "py")
    patterns = find_code_patterns(source, exercise.contract.name)
    pattern = find_code_pattern(mistake, patterns)
    line = None if pattern is None else pattern.line
    found = DiagnosisRecord(mistake.name, mistake.sentence, None, line, 0, 0)
    is_placed = place is not None and mistake.variants
    return pin_line(found, place, patterns).line if place and is_placed else line


def iter_pins(exercises: Iterable[Exercise]) -> Iterator[tuple[Answer, int | None, bool]]:
    """Yield answers that differ in a few lines, the pinned line, and whether it is one of them."""
    for exercise in exercises:
        rights = list_right_lines(exercise.slug)
        for answer in list_answers(exercise, "wrong"):
            changed = list_true_lines(answer.source.splitlines(), rights)
            if len(changed) <= FEW_LINES:
                line = find_pinned_line(exercise, answer)
                yield answer, line, line in widen_to_statements(answer.source, changed)


def list_told_lines(exercise: Exercise, answer: Answer, mistake: str) -> set[int]:
    """The lines of the place; if it is not known, that of the code pattern of the mistake."""
    place = find_place(exercise, answer)
    proved = set() if place is None else {each.line for each in place.lines}
    if proved:
        return proved
    source = read_source(answer.source.encode(), "py")
    patterns = find_code_patterns(source, exercise.contract.name)
    pattern = find_code_pattern(MISTAKES[mistake], patterns)
    return set() if pattern is None else {pattern.line}


def iter_places(exercises: Iterable[Exercise]) -> Iterator[tuple[str, Answer, set[int], bool]]:
    """Yield mistakes of which lines are told, the answer, and whether one is a changed one."""
    wrong = ((exercise, each) for exercise in exercises for each in list_answers(exercise, "wrong"))
    for exercise, answer in wrong:
        names = list_announced(answer)
        if len(names) != 1 or names[0] not in MISTAKES:
            continue
        lines, rights = answer.source.splitlines(), list_right_lines(exercise.slug)
        changed = list_true_lines(lines, rights)
        if len(changed) <= FEW_LINES and (told := list_told_lines(exercise, answer, names[0])):
            yield names[0], answer, told, bool(told & widen_to_statements(answer.source, changed))


BUILT = [each for each in BY_SLUG.values() if each.contract.entry is not Entry.BUILDER]


@pytest.mark.sampled("exercises", [BUILT], [BUILT[2::12]], ids=len)
def test_the_lines_to_look_at_contain_one_that_is_wrong(exercises: Sequence[Exercise]) -> None:
    told, right, beside, sizes = Counter[str](), Counter[str](), list[str](), list[int]()
    for mistake, answer, lines, is_there in iter_places(exercises):
        told[mistake] += 1
        right[mistake] += is_there
        sizes.append(len(lines))
        if not is_there:
            beside.append(f"{answer.exercise}/{answer.name}: {mistake}, {sorted(lines)}")
    assert told.total() > 9 * len(exercises)
    assert right.total() >= PRECISION * told.total(), beside
    assert statistics.median(sizes) <= MOST_LINES
    # Where a single answer makes a mistake, it says nothing about the mistake.
    assert [m for m in told if told[m] > 2 and 2 * right[m] < told[m] and m != UNUSED] == []


@pytest.mark.sampled("exercises", [BUILT], [BUILT[2::12]], ids=len)
def test_a_pinned_line_is_one_that_is_wrong(exercises: Sequence[Exercise]) -> None:
    found = [each for each in iter_pins(exercises) if each[1] is not None]
    beside = [(a.exercise, a.name, line) for a, line, is_there in found if not is_there]
    assert len(found) > 9 * len(exercises)
    assert len(beside) <= (1 - PINNED_PRECISION) * len(found), beside
