"""The protocol of recognisers: from evidence about a submission to the mistakes that explain it.

What counts as evidence depends on where a mistake shows. Recognisers of the same evidence stand in
a tuple, the simplest explanation first, and `recognise` asks them in this order. There are three
such tuples, asked in this order, too:

1. A check of calls with a cache names the way that gives the outputs (`cached_calls`).
2. After the checks, the submission answers further cases. Its answers show mistakes in the
   equation, in gradients and in dropout (`properties.mistakes.diagnosis`).
3. The failures that do not follow from these mistakes are symptoms of structural mistakes, among
   them those of step 1 (`grader.grading.consequences`).
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from headcheck.properties.mistakes.catalogue.mistake import Mistake
from headcheck.properties.mistakes.catalogue.symptom import StructuralMistake
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
    symptoms: StructuralMistake | None = None
    """the mistake with its symptoms, if it is recognised by the properties that fail"""
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
