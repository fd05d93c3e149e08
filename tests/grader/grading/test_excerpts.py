"""The lines to look at, with some around them: few, and as they are."""

from typing import Any

import pytest
import torch

from grader.grading.excerpts import LONGEST, MOST, excerpt, excerpts
from grader.reading.cells import Cell, Source
from grader.reading.excerpts import AROUND, LINES, WHOLE, WIDTH, Lines
from grader.reading.excerpts import excerpts as read
from grader.report.records import Excerpt
from grader.sandbox.grader_side.session import Session
from grader.sandbox.wire import Message
from grader.sandbox.worker.runtime import Host
from properties.violation import Status, SubmissionFailed


def source(length: int, number: int | None = None) -> Source:
    return Source((Cell(number, "\n".join(f"line {n}" for n in range(1, length + 1))),))


def test_a_short_cell_is_shown_whole() -> None:
    [lines] = read(source(WHOLE, 3), [(3, 2), (3, 5)])
    assert (lines.cell, lines.line, lines.text.count("\n")) == (3, 1, WHOLE - 1)


def test_of_a_long_one_the_lines_around_the_place() -> None:
    [lines] = read(source(100), [(None, 50)])
    assert lines.text.split("\n")[0] == f"line {50 - AROUND}"
    assert lines.text.split("\n")[-1] == f"line {50 + AROUND}"


def test_places_near_each_other_are_shown_together() -> None:
    assert [x.line for x in read(source(100), [(None, 40), (None, 40 + 2 * AROUND)])] == [32]
    assert [x.line for x in read(source(100), [(None, 20), (None, 60)])] == [12, 52]


@pytest.mark.parametrize("place", [(None, 0), (None, -3), (None, 101), (7, 3)])
def test_a_place_that_is_not_there_shows_nothing(place: tuple[int | None, int]) -> None:
    assert read(source(100), [place]) == []


def test_the_first_and_last_lines_are_shown_as_far_as_they_go() -> None:
    first, last = read(source(100), [(None, 1), (None, 100)])
    assert (first.line, last.text.split("\n")[-1]) == (1, "line 100")


def test_there_is_an_end_to_what_is_shown() -> None:
    long = Source((Cell(None, "\n".join("x" * 9999 for _ in range(9000))),))
    found = read(long, [(None, 30 * n) for n in range(1, 200)])
    assert sum(x.text.count("\n") + 1 for x in found) == LINES
    assert max(len(line) for x in found for line in x.text.split("\n")) == WIDTH


def test_half_a_surrogate_pair_can_be_sent() -> None:
    [lines] = read(Source((Cell(None, "x = '\ud800'"),)), [(None, 1)])
    assert lines.text == "x = '?'"


def test_a_host_hands_them_out_as_they_are() -> None:
    host = Host()
    sent = torch.frombuffer(bytearray(b"x = 1\ny = 2\n"), dtype=torch.uint8)
    host.answer(Message(1, "read", {"kind": "py"}, (("source", sent),)))
    reply = host.answer(Message(2, "excerpts", {"places": [(None, 2), (3, 1)]}))
    assert reply.meta == {"excerpts": [{"cell": None, "line": 1, "text": "x = 1\ny = 2\n"}]}
    nothing = Host().answer(Message(1, "excerpts", {"places": [(None, 1)]}))
    assert nothing.meta == {"excerpts": []}


# -------------------------------------------------------------------------- for the record


class Asked(Session):
    """A session that answers with these lines."""

    def __init__(self, answer: Any, *, closed: bool = False) -> None:
        self.answer = answer
        self.child = type("Child", (), {"closed": closed})()

    def excerpts(self, places: Any) -> list[Lines]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return list(self.answer)


ONE = Lines(4, 10, "a\nb\nc")


def test_what_is_marked_is_what_was_asked_for() -> None:
    shown = excerpts(Asked([ONE]), [(4, 11), (4, 99), (None, 11), (5, 10), (4, 11)])
    assert shown == (Excerpt(4, 10, "a\nb\nc", (11,)),)


def test_nothing_is_asked_where_no_place_is_known() -> None:
    assert excerpts(Asked(AssertionError()), [(4, None), (None, None)]) == ()


def test_without_a_process_there_is_nothing() -> None:
    failed = SubmissionFailed(Status.TIMED_OUT, "took too long")
    assert excerpts(Asked([ONE], closed=True), [(4, 11)]) == ()
    assert excerpts(Asked(failed), [(4, 11)]) == ()
    nobody = Asked([ONE])
    nobody.child = None
    assert excerpts(nobody, [(4, 11)]) == ()


def test_an_answer_too_long_is_cut() -> None:
    many = [Lines(None, 1, "x\n" * 10**6)] * 100
    shown = excerpts(Asked(many), [(None, 1)])
    assert len(shown) == MOST
    assert max(len(each.text) for each in shown) <= LONGEST
    assert max(each.text.count("\n") for each in shown) < LINES


def test_lines_that_lie_elsewhere_mark_nothing() -> None:
    assert excerpt(Lines(None, -5, "a"), [(None, 3)]).marked == ()
