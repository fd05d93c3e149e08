"""Trace a call of a module in a submission's process."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from torch import Tensor

from headcheck.grader.grading.tracing.graph import BadTrace, Flow, read_trace
from headcheck.grader.sandbox.grader_side.subject import ChannelModule
from headcheck.properties.mistakes.pipeline import SHAPE_ERRORS
from headcheck.properties.violations.violation import SubmissionFailed, Violation

if TYPE_CHECKING:  # answers to exercises need no binding
    from headcheck.properties.binding.probe import CallProbe

ERRORS = (SubmissionFailed, Violation, BadTrace, *SHAPE_ERRORS)
"""the exceptions that end a trace: from the submission, its process, or shapes that do not match"""


def trace_call(
    module: object, inputs: Sequence[Tensor], apart: int = 1, before: Sequence[Tensor] = ()
) -> Flow:
    """Return the flow of a call, which may continue others. Raises one of ERRORS."""
    assert isinstance(module, ChannelModule), "it is at the other end of a channel"
    return read_trace(*module.trace(inputs, apart, before))


def trace_probe(probe: "CallProbe") -> Flow | None:
    """Return the flow of one call of a probe's module; None if it cannot be traced."""
    x = probe.seen.x
    with suppress(*ERRORS):
        probe.module.write(probe.seen.stored)
        return trace_call(probe.module, [x if probe.batched else x[0]])
    return None
