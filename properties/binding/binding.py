"""The binding of a class: its contract in the author's terms, and the assumptions behind it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headcheck.properties.binding.bench import Bench, Settled, is_right_at
from headcheck.properties.binding.by_name import match_by_name
from headcheck.properties.binding.calls import set_given_aside
from headcheck.properties.binding.explaining import (
    find_certain,
    find_explanation,
    find_idle_norm,
    list_norms,
    makes_up_a_rate,
)
from headcheck.properties.binding.hypotheses import OTHER
from headcheck.properties.binding.masks import BIAS
from headcheck.properties.binding.model_calls import call_model
from headcheck.properties.binding.other_kinds import JUDGED_IN_PART, LATENT, name_other_kind
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.binding.search import BindingSearch, Match
from headcheck.properties.binding.settling import WINDOW, settle
from headcheck.properties.binding.sizing import find_free_widths
from headcheck.properties.binding.unrecognised import (
    depends_on_earlier_calls,
    describe_failure,
    find_fault,
)
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.mistakes.mistake_table import Mistakes
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.signatures.vocabulary import POSITION_BIAS
from headcheck.properties.subject import Subject
from headcheck.properties.terms.call_form import Given

CONSTANTS = frozenset(
    {Given.NONE, Given.ZERO, Given.FALSE, Given.TRUE, Given.POSITIONS, Given.POSITION_ROW}
)
"""arguments of a call other than rotary tables"""
UNSCALED = "no_scale"
"""the mistake that unscaled scores would be, if no bias were given"""
NOT_SCALED = re.compile(
    r"\b(un-?scaled|(not|no|never|without)( \w+){0,2} (scal\w+|temperature)|scal\w+ is (not|left))",
    re.IGNORECASE,
)
"""words of a class that does not scale its scores"""
SAID_OF_UNSCALED = (
    "its scores are not divided by the root of a head's width: if they should be, this is a mistake"
)


@dataclass(frozen=True, slots=True)
class Binding:
    """How a class is built and called, and which attention it computes.

    The contract is all that later steps need: the oracle, properties, names of mistakes and
    messages.
    """

    contract: Contract
    mistakes: Mistakes = ()
    """the mistakes with which the class was recognised; none if it computes the equation"""
    inexact: bool = False
    """whether the class was recognised although it computes something else that no known mistake
    explains
    """
    remarks: tuple[str, ...] = ()
    """findings that do not affect the verdict, each as a sentence"""
    raises: bool = False
    """whether every call raised, so that the class was recognised by the names of its weights"""
    broken: Contract | None = None
    """the contract for all sizes, if the class has an argument for each width of input and output
    but works only where these are equal
    """


@dataclass(frozen=True, slots=True)
class NotBound:
    """A class that computes no attention known to headcheck."""

    tried: str = ""
    """why it is not recognised, or the attempts that failed"""
    fault: str = ""
    """what its code does wrong whatever it is given; "" if headcheck's values may be why"""
    lacks_import: bool = False
    """whether it needs a module that is not there, so that nothing is known of the class"""
    paths: frozenset[str] = frozenset()
    """the paths of its weights"""
    probes: tuple[CallProbe, ...] = ()
    """the calls that returned"""
    kind: str = ""
    """what its names say that it is, if headcheck has no equation for this"""


Explain = Callable[[BindingSearch], Match | None]


def bind(
    subject: Subject, signature: Signature, explain: Sequence[Explain] = (match_by_name,)
) -> Binding | NotBound:
    """Find the binding of a class by its behaviour, or else by other ways to explain the class.

    Raises SubmissionFailed if its process ends.
    """
    search, match = find_explanation(BindingSearch(subject, set_given_aside(signature)))
    kind = name_other_kind(search.signature, search.paths)
    if match is None and kind in ("", *JUDGED_IN_PART):
        search, match = _explain(search, explain) or (search, None)
    paths = frozenset(search.paths)
    if match is not None and _lies_in_what_is_given(search.signature, match):
        return NotBound("the attention module is an argument of this class", paths=paths)
    if match is not None and _may_see_a_window(match):
        return NotBound("a window on both sides of a token: not judged", paths=paths)
    if match is None or (not search.probes and search.lacks_import):
        return _describe_search(search, kind)
    return _settle(search, match)


def _explain(
    search: BindingSearch, explain: Sequence[Explain]
) -> tuple[BindingSearch, Match] | None:
    """Return how a class is explained in another way, as it is or without norms of tokens."""
    for each in (search, *search.inner):
        read = (found for way in explain if (found := way(each)) is not None)
        told = (found for found in read if not makes_up_a_rate(each.signature, found))
        match = next((found for found in told if _fits_its_tables(each, found)), None)
        if match is not None:
            return each, match
    return None


def _describe_search(search: BindingSearch, kind: str) -> NotBound:
    """Say of a class that is not recognised what it is, or else why."""
    fault = find_fault(search)
    if depends_on_earlier_calls(search):
        why = "what a call returns depends on an earlier call, of other tokens"
    elif idle := find_idle_norm(search, list_norms(search)):
        why = f"no call uses its `{idle}`"
    else:
        why = describe_failure(search)
    tried = f"{kind}: not judged" if kind else why
    paths = frozenset(search.paths)
    probes = tuple(search.probes) or tuple(filter(None, [call_model(search)]))
    unknown = "" if kind in JUDGED_IN_PART and kind != LATENT else kind
    return NotBound(tried, fault, search.lacks_import, paths, probes, unknown)


def _settle(search: BindingSearch, match: Match) -> Binding:
    """Return the binding of a class that a match explains, with the rest of what it takes."""
    subject, signature = search.subject, search.signature
    said = _name_defaults(signature, match)
    free = None if said == signature else find_certain(BindingSearch(subject, said))
    if free is not None and (free.mistakes, free.inexact) == (match.mistakes, match.inexact):
        signature, match = said, free
    if _may_be_unscaled(subject, signature, match):
        unscaled = replace(match.contract, scale=1.0)
        match = replace(match, contract=unscaled, mistakes=(), inexact=False)
        match = replace(match, remark=SAID_OF_UNSCALED)
    if not search.probes:  # no call returned, so that nothing else is known
        return Binding(match.contract, match.mistakes, match.inexact, raises=True)
    settled = settle(subject, signature, match)
    broken = find_free_widths(subject, signature, match, settled)
    return Binding(
        settled.contract,
        match.mistakes,
        match.inexact,
        (*settled.remarks, *filter(None, [match.remark])),
        broken=broken,
    )


def _may_be_unscaled(subject: Subject, signature: Signature, match: Match) -> bool:
    """Whether scores that are not scaled are meant so, as in T5, or as the class says.

    Or as in Luong et al. 2015, section 3.1 (arXiv:1508.04025), where tokens are compared as they
    are, without weights, and averaged.
    """
    biases = (p for p in signature.call if BIAS.fullmatch(p.name))
    is_given = any(not p.has_default or POSITION_BIAS.fullmatch(p.name) for p in biases)
    bare = not match.contract.mappings and "value" not in match.contract.call_form.inputs
    if not (is_given or bare or NOT_SCALED.search(signature.doc)):
        return False
    if [mistake.name for mistake in match.mistakes] == [UNSCALED]:
        return True
    form = replace(match.contract.call_form, places=(match.place,))
    plain = replace(match.contract, call_form=form, scale=1.0)
    inexact = match.inexact and not match.mistakes
    return inexact and is_right_at(subject, plain, plain.fit(OTHER))


def _lies_in_what_is_given(signature: Signature, match: Match) -> bool:
    """Whether the queries come from weights of an object that the constructor takes.

    Then this object is the attention, and is judged without what a class puts around it.
    """
    places = tuple(f"{maker.attribute}." for maker in signature.makers)
    queries = (m.path for m in match.contract.mappings if "W_q" in m.holds)
    return bool(places) and any(path.startswith(places) for path in queries)


def _may_see_a_window(match: Match) -> bool:
    """Whether a window on both sides may be what looks like a mistake.

    An argument that names a window was taken for the longest length of a class that is not causal.
    """
    every = (each for a in match.contract.arguments for each in (a, *a.fields))
    named = any(a.quantity == "context_length" and WINDOW.search(a.name) for a in every)
    wrong = bool(match.mistakes) or match.inexact
    return wrong and named and not match.contract.has(Capability.CAUSAL)


def _name_defaults(signature: Signature, match: Match) -> Signature:
    """Return the signature; arguments whose defaults are the sizes that were found get quantities.

    So `Attention(a=512, b=8)` is also judged at sizes other than 512 and 8.
    """
    case, fixed = match.sizes.case, match.contract.sizes or {}
    width = {} if "head_dim" not in fixed else {case.d_out: "width"}
    found = {size: quantity for quantity, size in fixed.items() if size > 1} | width
    passed = {argument.name for argument in match.contract.arguments}
    constructor = tuple(
        replace(p, quantity=found.get(p.default))
        if p.name not in passed and p.quantity is None and type(p.default) is int
        else p
        for p in signature.constructor
    )
    return replace(signature, constructor=constructor)


def _fits_its_tables(search: BindingSearch, match: Match) -> bool:
    """Whether a class also takes the rotary tables of other sizes, if it is given any.

    Otherwise a table of another shape passed for the right one, and broke what came after it.
    """
    if {*(match.contract.call_form.given or {}).values()} <= CONSTANTS:
        return True
    bench = Bench(search.subject, search.signature, match, Settled(match.contract), OTHER)
    return bool(bench.call(replace(bench.contract.call_form, places=()), bench.x))
