"""The binding of a class: its contract in its author's terms, and what was assumed."""

from dataclasses import dataclass, replace

from properties.binding import settling
from properties.binding.bench import is_right_at
from properties.binding.by_name import match_by_name
from properties.binding.hypotheses import OTHER
from properties.binding.search import BindingSearch, Match
from properties.binding.signature import Signature
from properties.contract import Capability, Contract
from properties.mistakes.mistake_table import Mistakes
from properties.subject import Subject

INTENT = frozenset({Capability.CAUSAL, Capability.FULL})


@dataclass(frozen=True, slots=True)
class Binding:
    """How a class takes and gives what attention needs, and which attention it computes.

    Everything downstream speaks through the contract: the oracle, properties, names of mistakes
    and messages.
    """

    contract: Contract
    mistakes: Mistakes = ()
    """with which it was recognised; none if it computes the equation"""
    inexact: bool = False
    """whether it was recognised although it computes something else, and no mistake is known"""
    remarks: tuple[str, ...] = ()
    """what was found and is not judged, a sentence each"""


@dataclass(frozen=True, slots=True)
class NotBound:
    """A class that is no attention that is known here."""

    failures: tuple[str, ...] = ()
    """what it said when it was constructed and called, the last ones"""


def bind(subject: Subject, signature: Signature) -> Binding | NotBound:
    """Find the binding of a class by its behaviour. Raises SubmissionFailed if its process ends."""
    search = BindingSearch(subject, signature)
    match = search.find()
    if match is not None:
        settled = settling.settle(subject, signature, match)
        if _is_certain(subject, match, settled.contract):
            return Binding(settled.contract, match.mistakes, match.inexact, settled.remarks)
    match = match_by_name(search)
    if match is None:
        return NotBound(tuple(dict.fromkeys(search.failures))[-3:])
    settled = settling.settle(subject, signature, match)
    return Binding(settled.contract, (), match.inexact, settled.remarks)


def _is_certain(subject: Subject, match: Match, contract: Contract) -> bool:
    """Whether a match is no chance: at sizes that were guessed it has to hold at others, too.

    That is asked of what it hides, not of what it is meant to hide.
    """
    if match.mistakes or match.inexact or not match.guessed:
        return True
    kept = contract.capabilities - INTENT | match.contract.capabilities & INTENT
    found = replace(contract, capabilities=kept)
    return is_right_at(subject, found, found.fit(OTHER))
