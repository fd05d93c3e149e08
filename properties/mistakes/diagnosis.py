"""Find the known mistake that gives the same answers as the submission."""

from collections.abc import Sequence

from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue import EQUATION
from headcheck.properties.mistakes.recognisers.answers import (
    Answers,
    StepRecogniser,
    collect_answers,
    recognise_apart,
)
from headcheck.properties.mistakes.recognisers.dropout import recognise_dropout
from headcheck.properties.mistakes.recognisers.gradients import recognise_gradients
from headcheck.properties.mistakes.recognisers.recogniser import (
    DiagnosedMistake,
    Recogniser,
    recognise,
)
from headcheck.properties.violations.violation import SubmissionFailed

RECOGNISERS: tuple[Recogniser[Answers], ...] = (
    recognise_apart,
    StepRecogniser(EQUATION, pairs=True),
    StepRecogniser(EQUATION, "float32", pairs=True),
    recognise_gradients,
    recognise_dropout,
)
"""Recognisers in the order in which they are asked.

An exact explanation comes before one that holds only in float32. Gradients are compared if all
answers are right. Dropout is drawn at random, so it is looked at last, when nothing else explains
the submission.
"""
OF_DROPOUT: tuple[Recogniser[Answers], ...] = (recognise_dropout,)
"""Who is asked if only checks of dropout fail."""


def diagnose(
    harness: Harness,
    device: str = "cpu",
    recognisers: Sequence[Recogniser[Answers]] = RECOGNISERS,
) -> tuple[DiagnosedMistake, ...]:
    """Return the mistakes that explain a submission; none if it is correct or unexplained."""
    try:
        answers = collect_answers(harness, device)
    except SubmissionFailed:
        return ()  # out of time or memory: there are no answers to compare
    return recognise(answers, recognisers)
