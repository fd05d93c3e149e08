"""The protocol of recognisers: from evidence about a submission to the mistakes that explain it.

What counts as evidence depends on where a mistake shows: in the answers to cases, in the outputs of
calls with a cache, or in the properties that fail. Recognisers of the same evidence stand in a
tuple, the simplest explanation first, and `recognise` asks them in this order.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from headcheck.properties.mistakes.catalogue.mistake import Mistake
from headcheck.properties.mistakes.pipeline import Pipeline
from headcheck.properties.violations.violation import SubmissionFailed, Violation

Pipelines = tuple[Pipeline, ...]
"""one pipeline for all outputs, or one for each output if outputs are computed separately"""
E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)


@dataclass(frozen=True)
class DiagnosedMistake:
    """A mistake that explains the evidence about a submission."""

    mistake: Mistake
    cases_matched: int
    """the number of answers that the mistake explains, including crashes"""
    cases_tried: int
    indistinguishable: tuple[Mistake, ...] = ()
    """other mistakes that give the same answers"""
    ways: tuple[Pipelines, ...] = ()
    """the pipelines that compute the answers, with this mistake and the other mistakes of the
    submission. There are several if they are indistinguishable, and none if no pipeline is known"""
    output: int | None = None
    """the only output with the mistake, if outputs are computed separately; else None"""
    words: str = ""
    """what the submission does, for the message of the check that found it; empty if none did"""
    hint: str = ""


class Recogniser(Protocol[E_contra]):
    """Names the mistakes that explain evidence; none if the evidence is right or unexplained.

    Raises SubmissionFailed or Violation if the submission fails when it is asked for more.
    """

    def __call__(self, evidence: E_contra, /) -> tuple[DiagnosedMistake, ...]: ...


def recognise(evidence: E, recognisers: Iterable[Recogniser[E]]) -> tuple[DiagnosedMistake, ...]:
    """Return the mistakes that the first recogniser with an explanation names."""
    for recogniser in recognisers:
        with contextlib.suppress(SubmissionFailed, Violation):
            if named := recogniser(evidence):
                return named
    return ()
