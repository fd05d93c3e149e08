"""What comes back through the host if a submission fails."""

import pytest
import torch
from torch import Tensor, nn

from headcheck.grader.sandbox.wire import Message, label_by_name, label_by_position
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime
from headcheck.properties.subject import CallOptions
from headcheck.properties.violations.violation import Status, SubmissionFailed
from tests.grader.sandbox.runtimes import load_cells, make_function, make_subject


def test_error_is_one_line_with_the_author_s_location() -> None:
    host, reply = load_cells(
        "def helper(x):\n    y = x\n    return y @ y",
        "def Wanted(x):\n    return helper(x)",
    )
    assert reply.op == "ok"
    handle = host.answer(Message(1, "get_function", {"name": "Wanted"})).meta["handle"]
    how = {"device": "cpu", "memory": "contiguous", "training": False, "seed": None}
    meta = {"handle": handle, **how, "grad": "grad", "watched": False, "times": 1}
    reply = host.answer(Message(2, "forward", meta, label_by_position([torch.ones(2, 3)])))
    assert reply.op == "raised"
    assert reply.meta["type"] == "RuntimeError"
    assert "\n" not in reply.meta["message"]
    assert (reply.meta["cell"], reply.meta["line"]) == (1, 3)


class Unprintable(Exception):
    def __str__(self) -> str:
        return 5 * "long story\n" + 5000 * "!"


def fail_with(error: BaseException) -> SubmissionFailed:
    """What comes back of a call that raises this."""

    def call(x: Tensor) -> Tensor:
        raise error

    with pytest.raises(SubmissionFailed) as caught:
        make_function(call).forward([torch.ones(1)], CallOptions())
    return caught.value


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no\n\n  way"), "ValueError: no way"),
        (AssertionError(), "AssertionError"),
        (SystemExit(0), "SystemExit: 0"),
        (GeneratorExit(), "GeneratorExit"),
        (StopIteration(), "StopIteration"),
        (RecursionError("deep"), "RecursionError: deep"),
        (UnicodeError("half a pair \ud800"), "UnicodeError: half a pair"),
    ],
    ids=repr,
)
def test_any_exception_becomes_a_reply(error: BaseException, message: str) -> None:
    failure = fail_with(error)
    assert failure.status is Status.CRASHED
    assert failure.message.startswith(message)
    failure.message.encode()


def test_a_long_message_is_cut() -> None:
    assert len(fail_with(Unprintable()).message) <= 400


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …")],
    ids=["python", "torch"],
)
def test_out_of_memory_has_its_own_status(error: Exception) -> None:
    assert fail_with(error).status is Status.OUT_OF_MEMORY


def test_runtime_survives_errors_of_its_submission() -> None:
    calls: list[int] = []

    def call(x: Tensor) -> Tensor:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError
        return x

    module = make_function(call)
    with pytest.raises(SubmissionFailed):
        module.forward([torch.ones(1)], CallOptions())
    assert module.forward([torch.ones(1)], CallOptions()).outputs[0].tolist() == [1]


def test_unknown_request_is_refused() -> None:
    assert WorkerRuntime().answer(Message(1, "exec", {}, label_by_name({}))).op == "raised"


class Unset(nn.Module):
    def __init__(self, fresh: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.own = nn.Parameter(torch.empty(3) if fresh else torch.empty(3).zero_())


@pytest.mark.parametrize(("fresh", "unset"), [(True, ["own"]), (False, [])])
def test_parameters_that_nobody_gave_numbers_are_told(fresh: bool, unset: list[str]) -> None:
    subject = make_subject(Unset=Unset)
    assert list(subject.list_unset("Unset", {"fresh": fresh})) == unset
    assert not torch.are_deterministic_algorithms_enabled()
    assert not subject.list_disturbed()
