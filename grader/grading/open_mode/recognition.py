"""Recognise a class by its behaviour."""

import contextlib
from dataclasses import dataclass

from headcheck.grader.grading.open_mode.flow_binding import match_by_flow
from headcheck.grader.grading.open_mode.observed_layers import (
    ObservedLayer,
    call_and_observe,
    observe_layer,
)
from headcheck.grader.grading.settings import Settings
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.properties.binding.binding import Binding, NotBound, bind
from headcheck.properties.binding.by_name import match_by_name
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.subject import Subject
from headcheck.properties.terms.call_form import CallForm
from headcheck.properties.violations.violation import SubmissionFailed


@dataclass(frozen=True, slots=True)
class Recognition:
    """What the behaviour of a definition shows."""

    signature: Signature
    binding: Binding | None = None
    unbound: NotBound | None = None
    """why there is no binding, if the definition could be loaded"""
    layer: ObservedLayer | None = None
    """what was observed of a class that does more than attend, or something else"""
    failure: SubmissionFailed | None = None
    """why the definition could not be loaded, or how its process ended"""


def recognise(reading: Session, signature: Signature, settings: Settings) -> Recognition:
    """Return what a definition shows in a process of its own."""
    limits = settings.get_limits(settings.exercise)
    session = reading.start_successor(limits, by_hand=settings.by_hand)
    with contextlib.closing(session):
        try:
            session.load(signature.name)
            return _recognise_loaded(ChannelSubject(session), signature, settings)
        except SubmissionFailed as failed:
            return Recognition(signature, failure=failed)


def _recognise_loaded(subject: Subject, signature: Signature, settings: Settings) -> Recognition:
    stated = signature if settings.roles is None else settings.roles.add_to(signature)
    found = bind(subject, stated, (match_by_name, match_by_flow))
    layer: ObservedLayer | None = None
    with contextlib.suppress(SubmissionFailed):  # what was found is told nevertheless
        if isinstance(found, NotBound):
            layer = observe_layer(subject, found.probes, stated)
        else:
            layer = _observe_beside(subject, stated, found.contract.call_form)
    if isinstance(found, NotBound):
        return Recognition(signature, unbound=found, layer=layer)
    return Recognition(signature, found, layer=layer)


def _observe_beside(subject: Subject, signature: Signature, form: CallForm) -> ObservedLayer | None:
    """Return what is seen of a layer beside its attention; None of a class that is no layer."""
    is_layer = bool(form.silenced) or form.adds_tokens or form.joins_queries
    return call_and_observe(subject, signature) if is_layer else None
