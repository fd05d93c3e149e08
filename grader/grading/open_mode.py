"""Recognise a class that answers no exercise by what it computes, and judge it as what it is."""

import contextlib
from pathlib import Path

from exercises import Exercise
from grader.grading.infer import Target
from grader.grading.settings import Settings
from grader.sandbox.grader_side.session import Session
from grader.sandbox.grader_side.subject import ChannelSubject
from properties.binding.binding import Binding, NotBound, bind
from properties.binding.describe import describe_attention, list_assumptions
from properties.binding.signature import Signature
from properties.violation import Note

SLUG = "attention"
"""what stands for an exercise where a class is judged as what it is"""
CASES = 12
"""Fewer than for an exercise: every answer is asked for live."""


def recognise(reading: Session, signature: Signature, settings: Settings) -> Target | NotBound:
    """Return a class as a target of its own, or why it is not recognised.

    Raises SubmissionFailed if it cannot be loaded, or if its process ends.
    """
    session = reading.start_successor(settings.get_limits(None), by_hand=settings.by_hand)
    with contextlib.closing(session):
        session.load(signature.name)
        found = bind(ChannelSubject(session), signature)
    if isinstance(found, NotBound):
        return found
    return Target(_make_exercise(found), signature.name, _make_notes(signature, found))


def is_open(exercise: Exercise) -> bool:
    """Whether it stands for a class that is judged as what it is."""
    return exercise.slug == SLUG and not exercise.source  # a folder may have that name


def _make_exercise(binding: Binding) -> Exercise:
    title = describe_attention(binding.contract)
    return Exercise(SLUG, title, binding.contract, Path(), cases=CASES)


def _make_notes(signature: Signature, binding: Binding) -> tuple[Note, ...]:
    kind = describe_attention(binding.contract)
    notes = [f"recognised by what it computes: {kind}"]
    notes += [*list_assumptions(signature, binding.contract), *binding.remarks]
    return tuple(Note("recognised", text) for text in notes)
