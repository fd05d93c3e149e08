"""One call is recorded: what was computed, from what, on which line, with which values."""

import pytest
import torch
from torch import Tensor

from headcheck.grader.grading.tracing.graph import BadTrace, read_trace
from headcheck.grader.grading.tracing.operations import OPERATIONS, Action
from headcheck.grader.sandbox.grader_side.subject import ChannelModule
from headcheck.grader.sandbox.operations import TracedStep, TraceReply
from headcheck.grader.sandbox.worker import tracing
from tests.grader.sandbox.runtimes import open_source

SOURCE = """import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = width**-0.5
        self.register_buffer("mask", torch.ones(width, width).triu(1))
        self.linear = nn.Linear(width, width)

    def half(self, x):
        return x / 2

    def forward(self, x):
        y = self.linear(x) * self.scale
        y[0] = 7.0
        z = self.half(y) + self.mask
        return z.T
"""


def open_module(source: str = SOURCE, name: str = "Layer", **arguments: int) -> ChannelModule:
    module = open_source(source, name).construct(name, arguments, seed=1, dtype="float64")
    assert isinstance(module, ChannelModule)
    return module


def trace(module: ChannelModule, x: Tensor) -> tuple[TraceReply, Tensor]:
    return module.trace([x])


def test_each_step_has_its_line_its_sources_and_its_values() -> None:
    x = torch.arange(9.0).double().reshape(3, 3)
    module = open_module(width=3)
    reply, values = trace(module, x)
    flow = read_trace(reply, values)
    linear = next(n for n, step in enumerate(reply.steps) if step.kind == "linear")
    assert reply.steps[linear].line == 16
    given = [reply.steps[n].kind for n in reply.steps[linear].sources]
    assert given == ["input 0", "parameter linear.weight", "parameter linear.bias"]
    [returned] = reply.returned
    weights = module.read(["linear.weight", "linear.bias"])
    y = torch.nn.functional.linear(x, *weights.values()) * 3**-0.5
    y[0] = 7.0
    expected = (y / 2 + torch.ones(3, 3).double().triu(1)).T
    assert torch.equal(flow.values[returned].values.reshape(3, 3), expected)


def test_what_was_written_into_a_tensor_is_a_step_of_its_own() -> None:
    reply, values = trace(open_module(width=3), torch.ones(3, 3).double())
    [written] = [n for n, step in enumerate(reply.steps) if step.kind == "__setitem__"]
    flow = read_trace(reply, values)
    assert reply.steps[written].line == 17
    assert flow.values[written].values[:3].tolist() == [7.0] * 3
    [before] = reply.steps[written].sources
    assert flow.values[before].values[0] != 7.0
    halved = next(step for step in reply.steps if step.kind in ("div", "__truediv__"))
    assert halved.sources == (written,)


def test_a_helper_has_the_line_from_which_it_was_called_too() -> None:
    reply, _ = trace(open_module(width=3), torch.ones(3, 3).double())
    halved = next(step for step in reply.steps if step.kind in ("div", "__truediv__"))
    assert (halved.line, halved.outer) == (13, 18)


def test_a_buffer_has_the_line_on_which_it_is_made() -> None:
    reply, _ = trace(open_module(width=3), torch.ones(3, 3).double())
    [mask] = [step for step in reply.steps if step.kind == "buffer mask"]
    assert mask.line == 9


def test_lines_know_what_sets_the_numbers_that_they_read() -> None:
    reply, _ = trace(open_module(width=3), torch.ones(3, 3).double())
    known = {each.line: each for each in reply.lines}
    assert known[16].fed_by == (8,)
    assert known[16].layers == (10,)
    assert known[16].returns == 19


WRITES_BY_A_VIEW = """import torch


class Layer(torch.nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        part = out[:1]
        part += x[:1]
        return out
"""


def test_what_is_written_through_a_view_is_seen() -> None:
    reply, values = trace(open_module(WRITES_BY_A_VIEW), torch.ones(2, 2).double())
    flow = read_trace(reply, values)
    [returned] = reply.returned
    assert flow.values[returned].values.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert any(reply.steps[n].line == 8 for n in flow.walk_back([returned]))


IN_A_LOOP = """import torch


class Layer(torch.nn.Module):
    def forward(self, x):
        for _ in range(5000):
            x = x + 1
        return x
"""


def test_a_record_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    reply, values = trace(open_module(IN_A_LOOP), torch.ones(2, 2).double())
    assert len(reply.steps) <= tracing.MAX_STEPS + 2
    monkeypatch.setattr(tracing, "MAX_NUMBERS", 10)
    reply, values = trace(open_module(IN_A_LOOP), torch.ones(2, 2).double())
    assert values.numel() <= 10


def make_step(shape: tuple[int, ...] = (2,), sources: tuple[int, ...] = ()) -> TracedStep:
    return TracedStep("add", shape, sources, None, 1, True)


@pytest.mark.parametrize(
    ("reply", "count"),
    [
        (TraceReply((make_step(),), ()), 3),
        (TraceReply((make_step(),), ()), 1),
        (TraceReply((make_step((2**40,)),), ()), 2),
        (TraceReply((make_step((-1, -2)),), ()), 2),
        (TraceReply((make_step((1,) * 20),), ()), 1),
        (TraceReply((make_step(sources=(0,)),), ()), 2),
        (TraceReply((make_step(sources=(-1,)),), ()), 2),
        (TraceReply((make_step(),), (1,)), 2),
        (TraceReply((make_step((0,)),) * 100_000, ()), 0),
    ],
)
def test_what_is_no_trace_is_refused(reply: TraceReply, count: int) -> None:
    with pytest.raises(BadTrace):
        read_trace(reply, torch.zeros(count).double())


def test_values_of_another_form_are_refused() -> None:
    for values in (torch.zeros(2), torch.zeros(1, 2).double()):
        with pytest.raises(BadTrace):
            read_trace(TraceReply((make_step(),), ()), values)


def test_each_function_does_one_thing() -> None:
    assert len(OPERATIONS) == sum(len(each.value.split()) for each in Action)
