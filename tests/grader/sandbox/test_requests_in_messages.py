"""Requests in one message are answered as if each had been sent alone."""

import io
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from headcheck.grader.sandbox.wire import Message, label_by_position
from headcheck.grader.sandbox.worker.call_environment import isolate_random_state
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime

FORWARD = {
    "handle": 0, "device": "cpu", "memory": "contiguous", "training": None, "seed": None,
    "grad": "no_grad", "watched": False, "times": 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def numbers() -> Iterator[None]:
    """Keep the random state of this process, which a worker would not."""
    with isolate_random_state():
        yield


def ask_together(function: Callable[[Tensor], Tensor], *ops: str, seed: int | None = None) -> Any:
    """The replies and the tensors of a message that calls a function, and asks in between."""
    calls = [
        {"op": "forward", "meta": {**FORWARD, "seed": seed}, "tensors": ["0"]}
        if op == "forward"
        else {"op": op, "meta": {}, "tensors": []}
        for op in ops
    ]
    made = {"op": "get_function", "meta": {"name": "Wanted"}, "tensors": [], "makes": 0}
    sent = label_by_position(torch.ones(2) for op in ops if op == "forward")
    runtime = WorkerRuntime({"Wanted": function})
    reply = runtime.answer(Message(1, "run_transcript", {"requests": [made, *calls]}, sent))
    assert reply.op == "ok", reply.meta
    return reply.meta["replies"][1:], [tensor for _, tensor in reply.tensors]


def act_at(number: int, act: Callable[[], object]) -> Callable[[Tensor], Tensor]:
    """A function that does something in one of its calls."""
    calls = []

    def function(x: Tensor) -> Tensor:
        calls.append(x)
        if len(calls) == number:
            act()
        return x + torch.ones(2).to(torch.float64) * (torch.get_default_dtype() == torch.float64)

    return function


def test_a_setting_is_restored_before_the_next_request() -> None:
    changes = act_at(2, lambda: torch.set_default_dtype(torch.float64))
    asked = ("forward", "list_disturbed") * 3
    replies, tensors = ask_together(changes, *asked)
    names = [reply["meta"]["value"] for reply in replies[1::2]]
    assert names == [[], ["the default dtype"], ["the default dtype"]]
    assert torch.get_default_dtype() == torch.float32
    assert [bool((each == 1).all()) for each in tensors[::2]] == [True, False, True]


def test_gradients_that_are_switched_on_inside_a_call_are_noticed() -> None:
    changes = act_at(1, lambda: torch.set_grad_enabled(True))
    replies, _ = ask_together(changes, "list_disturbed", "forward", "list_disturbed", "forward")
    assert replies[0]["meta"]["value"] == []
    assert replies[2]["meta"]["value"] == ["whether gradients are recorded"]


def test_what_is_printed_is_taken_once() -> None:
    before = sys.stdout
    prints = act_at(2, lambda: sys.stdout.write("four\n"))
    replies, _ = ask_together(prints, *["forward", "take_prints"] * 3)
    assert [reply["meta"]["text"] for reply in replies[1::2]] == ["", "four\n", ""]
    assert sys.stdout is before


def test_output_that_one_call_sends_elsewhere_is_logged_in_the_next() -> None:
    before, calls = sys.stdout, []

    def function(x: Tensor) -> Tensor:
        calls.append(x)
        if len(calls) == 1:
            sys.stdout = io.StringIO()
        sys.stdout.write("x\n")
        return x

    replies, _ = ask_together(function, *["forward"] * 2, "take_prints")
    assert replies[2]["meta"] == {"text": "x\n", "length": 2}
    assert sys.stdout is before


@pytest.mark.parametrize("seed", [torch.manual_seed, random.seed])
def test_a_seed_in_a_call_is_noticed_and_forgotten(seed: Callable[[int], object]) -> None:
    replies, _ = ask_together(act_at(2, lambda: seed(5)), *["forward"] * 3)
    moved = [reply["meta"]["random_state_moved"] for reply in replies]
    assert moved == [False, True, False]


def test_every_request_draws_the_same_numbers() -> None:
    _, tensors = ask_together(lambda x: x + torch.rand(2), *["forward"] * 3)
    assert all(torch.equal(each, tensors[0]) for each in tensors[::2])


def test_a_crash_is_explained_only_if_it_is_asked_alone() -> None:
    def fails(x: Tensor) -> Tensor:
        return x @ torch.ones(3)

    [together], _ = ask_together(fails, "forward")
    runtime = WorkerRuntime({"Wanted": fails})
    made = runtime.answer(Message(1, "get_function", {"name": "Wanted"}, ()))
    meta = {**FORWARD, "handle": made.meta["handle"]}
    alone = runtime.answer(Message(2, "forward", meta, (("0", torch.ones(2)),)))
    assert together["op"] == alone.op == "raised"
    assert together["meta"] == {**alone.meta, "crash": None}
