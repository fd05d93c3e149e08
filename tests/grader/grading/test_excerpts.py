"""The lines to look at, with some around them: few, and as they are."""

from typing import Any

import pytest
import torch

from headcheck.grader.grading.excerpts import (
    MAX_EXCERPTS,
    MAX_LENGTH,
    collect_excerpts,
    make_excerpt,
)
from headcheck.grader.reading.cells import SourceCell, SubmissionSource
from headcheck.grader.reading.excerpts import (
    CONTEXT_LINES,
    MAX_LINE_LENGTH,
    MAX_LINES,
    MAX_MARKED_LENGTH,
    MAX_WHOLE_CELL,
    SourceLines,
)
from headcheck.grader.reading.excerpts import extract_excerpts as read
from headcheck.grader.report.records import Excerpt
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.wire import Message
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime
from headcheck.properties.violations.violation import Status, SubmissionFailed


def source(length: int, number: int | None = None) -> SubmissionSource:
    return SubmissionSource(
        (SourceCell(number, "\n".join(f"line {n}" for n in range(1, length + 1))),)
    )


def enumerate_lines(lines: SourceLines) -> enumerate[str]:
    return enumerate(lines.text.split("\n"), lines.line)


def test_a_short_cell_is_shown_whole() -> None:
    [lines] = read(source(MAX_WHOLE_CELL, 3), [(3, 2), (3, 5)])
    assert (lines.cell, lines.line, lines.text.count("\n")) == (3, 1, MAX_WHOLE_CELL - 1)


def test_long_cell_shows_the_lines_around_the_location() -> None:
    [lines] = read(source(100), [(None, 50)])
    assert lines.text.split("\n")[0] == f"line {50 - CONTEXT_LINES}"
    assert lines.text.split("\n")[-1] == f"line {50 + CONTEXT_LINES}"


def test_nearby_locations_share_an_excerpt() -> None:
    assert [x.line for x in read(source(100), [(None, 40), (None, 40 + 2 * CONTEXT_LINES)])] == [32]
    assert [x.line for x in read(source(100), [(None, 20), (None, 60)])] == [12, 52]


@pytest.mark.parametrize("place", [(None, 0), (None, -3), (None, 101), (7, 3)])
def test_invalid_location_shows_nothing(place: tuple[int | None, int]) -> None:
    assert read(source(100), [place]) == []


def test_the_first_and_last_lines_are_shown_as_far_as_they_go() -> None:
    first, last = read(source(100), [(None, 1), (None, 100)])
    assert (first.line, last.text.split("\n")[-1]) == (1, "line 100")


def test_excerpts_are_bounded() -> None:
    long = SubmissionSource((SourceCell(None, "\n".join("x" * 9999 for _ in range(9000))),))
    found = read(long, [(None, 30 * n) for n in range(1, 200)])
    assert sum(x.text.count("\n") + 1 for x in found) == MAX_LINES
    lengths = {n % 30 == 0: len(line) for x in found for n, line in enumerate_lines(x)}
    assert lengths == {True: MAX_MARKED_LENGTH, False: MAX_LINE_LENGTH}


def test_lone_surrogate_can_be_sent() -> None:
    [lines] = read(SubmissionSource((SourceCell(None, "x = '\ud800'"),)), [(None, 1)])
    assert lines.text == "x = '?'"


def test_runtime_returns_excerpts_unchanged() -> None:
    host = WorkerRuntime()
    sent = torch.frombuffer(bytearray(b"x = 1\ny = 2\n"), dtype=torch.uint8)
    host.answer(Message(1, "read", {"kind": "py"}, (("source", sent),)))
    reply = host.answer(Message(2, "extract_excerpts", {"places": [(None, 2), (3, 1)]}))
    assert reply.meta == {"value": [{"cell": None, "line": 1, "text": "x = 1\ny = 2\n"}]}
    nothing = WorkerRuntime().answer(Message(1, "extract_excerpts", {"places": [(None, 1)]}))
    assert nothing.meta == {"value": []}


# -------------------------------------------------------------------------- for the record


class Asked(Session):
    """A session that answers with these lines."""

    def __init__(self, answer: Any, *, closed: bool = False) -> None:
        self.answer = answer
        self.child = type("Child", (), {"closed": closed})()

    def fetch_excerpts(self, places: Any) -> list[SourceLines]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return list(self.answer)


ONE = SourceLines(4, 10, "a\nb\nc")


def test_requested_lines_are_marked() -> None:
    shown = collect_excerpts(Asked([ONE]), [(4, 11), (4, 99), (None, 11), (5, 10), (4, 11)])
    assert shown == (Excerpt(4, 10, "a\nb\nc", (11,)),)


def test_no_request_without_a_location() -> None:
    assert collect_excerpts(Asked(AssertionError()), [(4, None), (None, None)]) == ()


def test_no_process_gives_no_excerpts() -> None:
    failed = SubmissionFailed(Status.TIMED_OUT, "took too long")
    assert collect_excerpts(Asked([ONE], closed=True), [(4, 11)]) == ()
    assert collect_excerpts(Asked(failed), [(4, 11)]) == ()
    nobody = Asked([ONE])
    nobody.child = None
    assert collect_excerpts(nobody, [(4, 11)]) == ()


def test_an_answer_too_long_is_cut() -> None:
    many = [SourceLines(None, 1, "x\n" * 10**6)] * 100
    shown = collect_excerpts(Asked(many), [(None, 1)])
    assert len(shown) == MAX_EXCERPTS
    assert max(len(each.text) for each in shown) <= MAX_LENGTH
    assert max(each.text.count("\n") for each in shown) < MAX_LINES


def test_lines_that_lie_elsewhere_mark_nothing() -> None:
    assert make_excerpt(SourceLines(None, -5, "a"), [(None, 3)]).marked == ()
