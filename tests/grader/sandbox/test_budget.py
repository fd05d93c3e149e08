"""One budget for a file: what counts against it, and what is said when it is used up."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from torch import Tensor

from headcheck.grader.grading import grade, ungraded
from headcheck.grader.sandbox import operations
from headcheck.grader.sandbox.grader_side.budget import Budget, BudgetExhausted
from headcheck.grader.sandbox.grader_side.servers import TooSlow
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.timing import NO_TIME, RequestTime
from headcheck.grader.sandbox.wire import Message
from headcheck.properties.violations.violation import Status, SubmissionFailed
from tests.grader.conftest import GradeNotebook
from tests.hostile.costly import COSTLY, HONEST

LIMITS = Limits()


def charged(*requests: tuple[str, RequestTime, bool]) -> Budget:
    """A budget after requests of one process: what, the time it used, whether too late."""
    budget = Budget()
    budget.start_process(LIMITS, 100)
    for op, used, late in requests:
        budget.charge(op, LIMITS, used, late=late)
    return budget


def used_up(budget: Budget, limits: Limits = LIMITS, op: str = "forward") -> BudgetExhausted | None:
    try:
        budget.require_available(op, limits)
    except BudgetExhausted as said:
        return said
    return None


# --------------------------------------------------------------------- endless and slow calls


def test_three_calls_that_use_up_their_time_end_the_run() -> None:
    late = ("forward", RequestTime(own=10.0), True)
    assert used_up(charged(*[late] * 2)) is None
    said = used_up(charged(*[late] * 3))
    assert said is not None and said.status is Status.TIMED_OUT
    assert said.message == (
        "3 calls used up their time, on inputs of a few numbers, so no more are made: is there a "
        "loop that does not end, or a sleep?"
    )


def test_an_overrun_on_large_inputs_is_taken_back() -> None:
    budget = charged()
    for _ in range(5):
        budget.charge("forward", LIMITS, RequestTime(own=10.0), late=True)
        budget.pardoned += 1
    assert used_up(budget) is None
    assert budget.compute_timeout("forward", LIMITS) == LIMITS.call_s


def test_slow_calls_that_end_are_no_time_out() -> None:
    budget = charged(*[("forward", RequestTime(own=9.0), False)] * 14)
    said = used_up(budget)
    assert said is not None and said.status is Status.NOT_ASKED
    assert said.message == "took more than 120 s in all"


def test_what_others_left_of_the_total_is_no_overrun() -> None:
    budget = charged(*[("forward", RequestTime(own=9.9), False)] * 12)
    left = budget.compute_timeout("forward", LIMITS)
    assert left == pytest.approx(1.2)
    budget.charge("forward", LIMITS, RequestTime(own=left), late=True)
    said = used_up(budget)
    assert said is not None and said.status is Status.NOT_ASKED


def test_threads_that_use_up_the_time_of_a_call_overrun() -> None:
    """Sixteen of them use a minute of processor time in four seconds."""
    budget = charged(("forward", RequestTime(own=60.0), False))
    assert budget.endless == 1


def test_a_request_may_take_the_time_of_all_its_calls() -> None:
    budget, many = charged(), {"times": 32}
    calls = operations.count_calls("forward", many)
    assert (calls, budget.compute_timeout("forward", LIMITS, calls)) == (32, LIMITS.total_s)
    budget.charge("forward", LIMITS, RequestTime(own=32 * 0.9), late=False, calls=calls)
    assert budget.endless == 0
    budget.charge("forward", LIMITS, RequestTime(own=91.2), late=True, calls=calls)
    assert budget.endless == 0, "it used up the total, and no call its own time"
    said = used_up(budget)
    assert said is not None and said.status is Status.NOT_ASKED


@pytest.mark.parametrize(
    ("op", "meta", "calls"),
    [
        ("forward", {"times": 70}, 70),
        ("evaluate", {}, 1),
        ("compute_vjp", {"times": 2}, 2),
        ("decode", {"after": [-1, 0, 1]}, 3),
        ("run_series", {"passes": [{"backward": [0]}, {"backward": [0, 1]}]}, 5),
        ("overwrite_results", {}, 3),
    ],
)
def test_the_calls_of_a_request_are_counted(op: str, meta: dict[str, Any], calls: int) -> None:
    assert operations.count_calls(op, meta) == calls


def test_many_calls_that_take_too_long_are_not_called_endless() -> None:
    one, many = TooSlow(10.0), TooSlow(15.0, 32)
    assert one.status is Status.TIMED_OUT and "endless" in one.message
    assert (many.status, many.message) == (Status.NOT_ASKED, "took more than 15 s for 32 calls")


def test_imports_and_batches_do_not_overrun() -> None:
    assert used_up(charged(*[("load", RequestTime(own=12.0), False)] * 9)) is None
    assert used_up(charged(*[("run_batch", RequestTime(own=5.0), True)] * 9)) is None


def test_each_call_that_used_up_its_time_leaves_less_to_the_next() -> None:
    budget = charged()
    given = []
    while used_up(budget) is None:
        given.append(budget.compute_timeout("forward", LIMITS))
        budget.charge("forward", LIMITS, RequestTime(own=given[-1]), late=True)
    assert given == pytest.approx([10, 10 / 3, 10 / 9])
    assert sum(given) + budget.compute_timeout("run_batch", LIMITS) < 20


# ------------------------------------------------------------------------------ sleeping


def test_sleeping_is_counted_however_many_calls_it_is_spread_over() -> None:
    budget = charged(*[("forward", RequestTime(own=0.9, idle=0.9), False)] * 16)
    assert used_up(budget) is None
    budget.charge("forward", LIMITS, RequestTime(own=0.9, idle=0.9), late=False)
    said = used_up(budget)
    assert said is not None and said.status is Status.TIMED_OUT
    assert said.message == (
        "waited for more than 15 s in all without computing anything, so no more calls are made: "
        "does it sleep, or wait for something that never comes?"
    )


@pytest.mark.parametrize("nap", [0.9, 4.9, 7.4, 9.9, 60.0])
def test_sleeping_costs_no_more_than_twenty_seconds(nap: float) -> None:
    budget, cost, asked = charged(), 0.0, "run_batch"
    while used_up(budget) is None:
        idle = budget.compute_idle_timeout(asked, LIMITS)
        patience = min(budget.compute_timeout(asked, LIMITS), idle)
        slept = min(nap * 9 if asked == "run_batch" else nap, patience)
        budget.charge(asked, LIMITS, RequestTime(slept, slept), late=slept == patience)
        if slept == patience:
            budget.start_process(LIMITS, 100)
        cost, asked = cost + slept, "forward"
    assert cost <= 20


# -------------------------------------------------------------- reading, total, processor


def test_reading_has_a_limit_of_its_own() -> None:
    budget = charged(("read", RequestTime(30.0), False), ("read", RequestTime(29.0), False))
    assert budget.compute_timeout("read", LIMITS) == pytest.approx(1)
    assert budget.compute_timeout("forward", LIMITS) == LIMITS.call_s
    assert budget.total_s == 0 and used_up(budget, op="read") is None
    budget.charge("read", LIMITS, RequestTime(1.5), late=True)
    said = used_up(budget, op="read")
    assert said is not None and said.message == (
        "reading it took more than 60 s: hand in a smaller file, with only the definitions and "
        "the code that they need"
    )
    assert used_up(budget) is None, "what was read is judged"


def test_a_large_file_gets_processor_time_to_be_read_in() -> None:
    budget = Budget(cpu_s=50.0)
    assert budget.start_process(LIMITS, 1000) == 11
    assert budget.start_process(LIMITS, 3 << 20) == 40
    budget.charge("read", LIMITS, RequestTime(own=8.0), late=False)
    budget.end_process(cpu=10.0)
    assert budget.cpu_s == pytest.approx(52)


@pytest.mark.parametrize(
    ("budget", "status", "message"),
    [
        (Budget(total_s=120.0), Status.NOT_ASKED, "took more than 120 s in all"),
        (Budget(cpu_s=60.0), Status.NOT_ASKED, "used more than 60 s of processor time"),
        (
            Budget(reply_bytes=(1 << 30) + 1),
            Status.CRASHED,
            "answered with more than 1024 MiB in all",
        ),
    ],
    ids=["total", "processor", "replies"],
)
def test_total_usage_is_reported(budget: Budget, status: Status, message: str) -> None:
    said = used_up(budget)
    assert said is not None and (said.status, said.message) == (status, message)


# --------------------------------------------------------------------------- the session


@dataclass
class Slow:
    """A server whose children answer, sleep, or are too late."""

    last_request_time: RequestTime = NO_TIME
    late: bool = False
    asked: list[tuple[str, float | None]] = field(default_factory=list)
    lefts: list[int | None] = field(default_factory=list)
    cpu: float = 0.0
    closed: bool = False
    killed_by_others: bool = False

    def start_child(self, limits: Limits, cpu_left: int | None = None) -> "Slow":
        self.lefts.append(cpu_left)
        return dataclasses.replace(self, closed=False)

    def request(
        self,
        op: str,
        meta: Mapping[str, Any],
        tensors: tuple[tuple[str, Tensor], ...] = (),
        within: float | None = None,
        idle: float = math.inf,
    ) -> Message:
        self.asked.append((op, within))
        if self.late and op == "forward":
            self.closed = True
            raise TooSlow(within or 0.0)
        meta = {"value": {}} if op == "read" else {"remarks": []}
        return Message(1, "ok", meta, size=1 << 20)

    def close(self) -> None:
        self.closed = True


def test_definitions_of_a_file_share_its_budget() -> None:
    server = Slow(cpu=25.0)
    reading = Session(server, b"x = 1", "py", LIMITS)
    reading.read_outline()
    for _ in range(3):
        session = reading.start_successor(LIMITS)
        session.load("x")
        session.close()
    # The reading process becomes that of the first definition.
    assert server.lefts == [61, 36, 11]
    last = reading.start_successor(LIMITS)
    with pytest.raises(BudgetExhausted, match="used more than 60 s of processor time"):
        last.load("x")
    assert len(server.lefts) == 3, "no process is started for nothing"


def test_replies_of_all_processes_are_added_up() -> None:
    limits = Limits(replies=5 << 20)
    session = Session(Slow(), b"x = 1", "py", limits)
    session.load("x")
    session.close()
    session.revive()
    with pytest.raises(BudgetExhausted, match="answered with more than 5 MiB in all") as caught:
        [session.request("forward", {}) for _ in range(2)]
    assert caught.value.status is Status.CRASHED
    with pytest.raises(BudgetExhausted):
        session.revive()


def test_the_last_of_too_many_endless_calls_says_so() -> None:
    server = Slow(RequestTime(own=10.0), late=True)
    session = Session(server, b"x = 1", "py", LIMITS)
    session.load("x")
    said = []
    for _ in range(3):
        session.revive()
        with pytest.raises(SubmissionFailed) as caught:
            session.request("forward", {})
        said.append(str(caught.value))
    assert said[0] == "took more than 10 s for one call: is there an endless loop?"
    assert said[2].startswith("3 calls used up their time")


def test_what_tidies_up_after_a_late_call_is_told_the_same() -> None:
    """A module is moved back, say: "the process had ended before" would look like a crash."""
    session = Session(Slow(RequestTime(own=10.0), late=True), b"x = 1", "py", LIMITS)
    session.load("x")
    said = set()
    for op in ("forward", "move", "construct"):
        with pytest.raises(SubmissionFailed) as caught:
            session.request(op, {})
        said.add((caught.value.status, str(caught.value)))
    assert said == {
        (Status.TIMED_OUT, "took more than 10 s for one call: is there an endless loop?")
    }
    assert session.budget.overruns == 1
    session.revive()
    assert session.request("move", {}).op == "ok"


# ------------------------------------------------------------------------- from a file on

QUICK = Limits(call_s=0.6, idle_s=0.8)


def test_thirteen_definitions_that_sleep_cost_as_much_as_one(
    grade_notebook: GradeNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets: list[Budget] = []
    monkeypatch.setattr(Session, "close", _noted(budgets))
    records = grade_notebook(COSTLY["thirteen_sleepers"], limits=QUICK)
    assert len(records) == 13
    first, *_, last = records.values()
    assert first.status == "timed_out" and first.error is None
    assert {record.status for record in records.values()} == {"timed_out"}
    assert last.error is not None and last.error.message.startswith(
        "`MultiHeadAttention12` was not judged, because the file has used up its limits: "
        "waited for "
        "more than 0.8 s in all without computing anything"
    )
    assert len({id(budget) for budget in budgets}) == 1
    assert QUICK.idle_s <= budgets[0].idle_s <= QUICK.idle_s + QUICK.call_s + 0.5


def _noted(budgets: list[Budget]) -> Any:
    close = Session.close

    def noted(session: Session) -> None:
        budgets.append(session.budget)
        close(session)

    return noted


def test_first_of_too_many_definitions_are_graded_and_others_named(
    grade_notebook: GradeNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (grade, ungraded):
        monkeypatch.setattr(module, "MAX_DEFINITIONS", 1)
    monkeypatch.setattr(ungraded, "MAX_LISTED", 2)
    tail = HONEST[HONEST.index("class ") :]
    names = ("MultiHeadAttention", "MultiHeadAttention1", "MultiHeadAttention2")
    cells = [HONEST, *(tail.replace("MultiHeadAttention", name) for name in names[1:])]
    first, rest = grade_notebook(*cells).values()
    assert (first.name, first.status) == ("MultiHeadAttention", "passed")
    assert rest.error is not None and rest.score == 0 and rest.max_score == first.max_score
    assert (rest.name, rest.status, rest.error.kind) == (names[1], "not_tried", "too_many")
    assert rest.error.message == (
        "`MultiHeadAttention1`, `MultiHeadAttention2`: not judged, since headcheck judges "
        "the first 1 definitions of a file that answer an exercise; hand in the others in "
        "separate files"
    )


def test_reading_a_large_file_does_not_count_as_a_call(grade_notebook: GradeNotebook) -> None:
    cells = [f"value_{n} = [{n}]\n" * 60 for n in range(60)]
    [record] = grade_notebook(HONEST, *cells, limits=Limits(read_s=0.02)).values()
    assert record.error is not None and record.error.kind == "unreadable"
    assert record.error.message.startswith("reading it took more than 0.02 s: hand in a smaller")


def test_huge_tuple_is_refused_in_the_worker(grade_notebook: GradeNotebook) -> None:
    [record] = grade_notebook(COSTLY["empty_tensors"]).values()
    assert record.status == "failed"
    messages = [p.message for p in record.properties]
    assert any("got       a tuple of 100000 (Tensor, Tensor" in message for message in messages)
