"""The line that is told with a mistake is one on which the answer differs from a right one.

It is found by what code looks like, so it may be another one. Of answers that differ from a right
answer in a few lines it is known which these are.
"""

import ast
import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import pytest

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.exercises.answers import Answer, list_answers
from headcheck.grader.grading.explain import find_code_pattern
from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.code_patterns import find_code_patterns
from headcheck.properties.contracts.contract import Entry
from headcheck.properties.mistakes.catalogue import ALL
from tests.golden.bank import list_announced

MISTAKES = {each.name: each for each in ALL}
FEW_LINES = 4
PRECISION = 0.9
UNUSED = "no_mask"
"""A mask that is made and not used is told by the line that makes it, which is no wrong one."""
SIMPLE = (ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)


@cache
def list_right_lines(slug: str) -> Sequence[list[str]]:
    exercise = BY_SLUG[slug]
    solution = (exercise.folder / "solution.py").read_text(encoding="utf-8")
    sources = (solution, *(each.source for each in list_answers(exercise, "right")))
    return [source.splitlines() for source in sources]


def list_changed_lines(wrong: Sequence[str], right: Sequence[str]) -> set[int]:
    """The lines of an answer that a right one has not, or between which it has others."""
    changed, gaps = set[int](), set[int]()
    matcher = difflib.SequenceMatcher(None, right, wrong, autojunk=False)
    for kind, _, _, start, end in matcher.get_opcodes():
        if kind == "delete":
            gaps |= {start, start + 1}
        elif kind != "equal":
            changed |= set(range(start + 1, end + 1))
    documented = set(range(1, 4))
    return changed - documented or gaps


def widen_to_statements(source: str, lines: set[int]) -> set[int]:
    """The lines of all statements that have one of these lines."""
    simple = (node for node in ast.walk(ast.parse(source)) if isinstance(node, SIMPLE))
    spans = (set(range(node.lineno, (node.end_lineno or node.lineno) + 1)) for node in simple)
    return lines.union(*(span for span in spans if span & lines))


def iter_places(exercises: Iterable[Exercise]) -> Iterator[tuple[str, Answer, bool]]:
    """Yield mistakes of which a line is told, the answer, and whether it is a changed one."""
    wrong = ((exercise, each) for exercise in exercises for each in list_answers(exercise, "wrong"))
    for exercise, answer in wrong:
        names = list_announced(answer)
        if len(names) != 1 or names[0] not in MISTAKES:
            continue
        source = read_source(answer.source.encode(), "py")
        patterns = find_code_patterns(source, exercise.contract.name)
        place = find_code_pattern(MISTAKES[names[0]], patterns)
        lines, rights = answer.source.splitlines(), list_right_lines(exercise.slug)
        changed = min((list_changed_lines(lines, each) for each in rights), key=len)
        if place is not None and len(changed) <= FEW_LINES:
            yield names[0], answer, place.line in widen_to_statements(answer.source, changed)


BUILT = [each for each in BY_SLUG.values() if each.contract.entry is not Entry.BUILDER]


@pytest.mark.sampled("exercises", [BUILT], [BUILT[2::3]], ids=len)
def test_the_line_to_look_at_is_one_that_is_wrong(exercises: Sequence[Exercise]) -> None:
    told, right, beside = Counter[str](), Counter[str](), list[str]()
    for mistake, answer, is_there in iter_places(exercises):
        told[mistake] += 1
        right[mistake] += is_there
        if not is_there:
            beside.append(f"{answer.name}: {mistake}")
    assert told.total() > 9 * len(exercises)
    assert right.total() >= PRECISION * told.total(), beside
    assert [each for each in told if 2 * right[each] < told[each] and each != UNUSED] == []
