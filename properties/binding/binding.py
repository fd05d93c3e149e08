"""The binding of a class: its contract in the author's terms, and the assumptions behind it."""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from headcheck.properties.binding import settling
from headcheck.properties.binding.added_positions import iter_with_positions
from headcheck.properties.binding.bench import Bench, Settled, is_close
from headcheck.properties.binding.by_name import match_by_name
from headcheck.properties.binding.calls import set_given_aside
from headcheck.properties.binding.hypotheses import NARROW, OTHER
from headcheck.properties.binding.learned_scale import (
    find_learned_scales,
    is_explained,
    set_scale,
)
from headcheck.properties.binding.masks import BIAS
from headcheck.properties.binding.nearest import (
    depends_on_earlier_calls,
    describe_failure,
    find_fault,
    lacks_import,
)
from headcheck.properties.binding.other_kinds import JUDGED_IN_PART, name_other_kind
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.binding.search import BindingSearch, Match
from headcheck.properties.binding.signature import Signature
from headcheck.properties.binding.token_ids import call_with_ids
from headcheck.properties.binding.vocabulary import guess_quantity
from headcheck.properties.binding.ways import EXACT, MAX_STEPS
from headcheck.properties.contracts.contract import Contract, Entry
from headcheck.properties.mistakes.mistake_table import Mistakes
from headcheck.properties.subject import Subject
from headcheck.properties.terms.call_form import Given
from headcheck.properties.terms.case import Case

NORM_OF_TOKENS = re.compile(
    r"(\w+\.)*(?!([qk]|query|key)_?\w*norm|\w*norm_?([qk]|query|key)\b)"
    r"(\w*norm\w*|\w*ln_?\d*)(\.\w+)*\.(weight|bias|gain|scale|gamma|beta|g|b)",
    re.IGNORECASE,
)
"""paths of parameters of layers that norm tokens, but not of those that norm queries and keys"""
ANY_NORM = re.compile(
    r"(\w+\.)*\w*(norm|ln)\w*\.(weight|bias|gain|scale|gamma|beta)", re.IGNORECASE
)
"""paths of parameters of norms in a class with latents, which are also normed"""
MAX_TRIED = 2
"""how many ways to call a class are tried to see whether a norm has an effect"""
MAX_OPTIONS = 3
"""how many options of a constructor are switched on, one at a time"""
KNOWN_BY_NOW = int(MAX_STEPS * EXACT) - 700
"""the steps that later searches count as done: most classes with norms, for example, are blocks"""
KERNELS = re.compile(r"flash|fused|sdpa|fast|efficient|triton|xformers|compile", re.IGNORECASE)
"""names of options that say how the same attention is computed: both ways must be right"""
CONSTANTS = frozenset(
    {Given.NONE, Given.ZERO, Given.FALSE, Given.TRUE, Given.POSITIONS, Given.POSITION_ROW}
)
"""what calls are given that is no rotary table"""
UNSCALED = "no_scale"
"""the mistake that scores without a scale would be without such a bias"""
SAID_OF_UNSCALED = (
    "its scores are not divided by the root of a head's width, as in T5: if they should be, this "
    "is a mistake"
)
RESIDUAL = frozenset({"residual_added"})
"""the mistake that a residual would be without a norm beside it"""


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
    """the nearest known attention, or the attempts that failed"""
    fault: str = ""
    """what its code does wrong whatever it is given; "" if headcheck's values may be why"""
    lacks_import: bool = False
    """whether it needs a module that is not there, so that nothing is known of the class"""
    paths: frozenset[str] = frozenset()
    """the paths of its weights"""
    probes: tuple[CallProbe, ...] = ()
    """the calls that returned"""


Explain = Callable[[BindingSearch], Match | None]


def bind(
    subject: Subject, signature: Signature, explain: Sequence[Explain] = (match_by_name,)
) -> Binding | NotBound:
    """Find the binding of a class by its behaviour, or else by other ways to explain the class.

    Raises SubmissionFailed if its process ends.
    """
    search, match = _search(BindingSearch(subject, set_given_aside(signature)))
    kind = name_other_kind(search.signature, search.paths)
    match = match or _find_with_positions(search)
    if match is None and kind in ("", *JUDGED_IN_PART):
        read = (found for way in explain if (found := way(search)) is not None)
        match = next((found for found in read if _fits_its_tables(search, found)), None)
    if match is not None and _lies_in_what_is_given(search.signature, match):
        return NotBound("the attention is what it is given", paths=frozenset(search.paths))
    if match is None or (not search.probes and lacks_import(search)):
        return _describe_search(search, kind)
    return _settle(search, match)


def _search(search: BindingSearch) -> tuple[BindingSearch, Match | None]:
    """Return the search that explains a class, perhaps with other calls or options, and its match.

    Without a match, the search is the one that other ways to explain the class go on from.
    """
    match = _find_certain(search)
    if match is None:
        search, match = _unwrap(search) or (search, None)
    if match is None:
        search, match = _fix_scale(search) or (search, None)
    if match is not None and _is_wrong(match):
        return _take_off(search, match) or _switch_on(search) or (search, match)
    return search, match


def _describe_search(search: BindingSearch, kind: str) -> NotBound:
    """Say of a class that is not recognised what it is, or else what comes nearest."""
    fault = find_fault(search)
    if depends_on_earlier_calls(search):
        nearest = "what a call returns depends on an earlier call, of other tokens"
    elif idle := _find_idle_norm(search, _list_norms(search)):
        nearest = f"no call uses its `{idle}`"
    else:
        nearest = describe_failure(search)
    tried = f"{kind}: not judged" if kind else nearest
    paths = frozenset(search.paths)
    probes = tuple(search.probes) or tuple(filter(None, [call_with_ids(search)]))
    return NotBound(tried, fault, lacks_import(search), paths, probes)


def _settle(search: BindingSearch, match: Match) -> Binding:
    """Return the binding of a class that a match explains, with the rest of what it takes."""
    subject, signature = search.subject, search.signature
    said = _name_defaults(signature, match)
    free = None if said == signature else _find_certain(BindingSearch(subject, said))
    if free is not None and (free.mistakes, free.inexact) == (match.mistakes, match.inexact):
        signature, match = said, free
    if _may_be_unscaled(signature, match):
        unscaled = replace(match.contract, scale=1.0)
        match = replace(match, contract=unscaled, mistakes=(), remark=SAID_OF_UNSCALED)
    settled = settling.settle(subject, signature, match)
    broken = settling.find_free_widths(subject, signature, match, settled)
    return Binding(
        settled.contract,
        match.mistakes,
        match.inexact,
        (*settled.remarks, *filter(None, [match.remark])),
        raises=not search.probes,
        broken=broken,
    )


def _is_wrong(match: Match) -> bool:
    return bool(match.mistakes) or match.inexact


def _may_be_unscaled(signature: Signature, match: Match) -> bool:
    """Whether scores that are not scaled are meant so, as in T5: calls are given their bias."""
    is_given = any(BIAS.fullmatch(p.name) and not p.has_default for p in signature.call)
    return is_given and [mistake.name for mistake in match.mistakes] == [UNSCALED]


def _switch_on(search: BindingSearch) -> tuple[BindingSearch, Match] | None:
    """Return the search and the match of a class that is right if one of its options is on.

    As of GPT-2's attention, whose `scale=False` is for those who ask for nothing else.
    """
    parameters = search.signature.constructor
    off = [p for p in parameters if p.default is False and not KERNELS.search(p.name)]
    for option in off[:MAX_OPTIONS]:
        on = replace(option, has_default=False, by_name=True)
        own = replace(
            search.signature, constructor=tuple(on if p is option else p for p in parameters)
        )
        switched = BindingSearch(search.subject, own, steps=KNOWN_BY_NOW)
        match = _find_certain(switched)
        if match is not None and not _is_wrong(match):
            return switched, match
    return None


def _unwrap(search: BindingSearch) -> tuple[BindingSearch, Match] | None:
    """Return the search and the match of a class without its norms of tokens, or of latents.

    Beside a norm, tokens that are added to the output are a residual, and are taken off. A norm
    that changes nothing is not left out: it may be what is wrong.
    """
    norms = _list_norms(search)
    if not norms or _find_idle_norm(search, norms) or not _has_role_beside(search, norms):
        return None
    for adds_tokens in (False, True):
        own = replace(search.signature, bypassed=tuple(sorted(norms)), adds_tokens=adds_tokens)
        inner = BindingSearch(search.subject, own, steps=KNOWN_BY_NOW)
        match = _find_certain(inner)
        if match is not None and not RESIDUAL & {mistake.name for mistake in match.mistakes}:
            return inner, match
    return None


def _take_off(search: BindingSearch, match: Match) -> tuple[BindingSearch, Match] | None:
    """Return the search and the match of a class that adds its tokens to what a part gives.

    Attention that adds them itself is wrong. But a layer does so around attention.
    """
    parts = {m.path.partition(".")[0] for m in match.contract.mappings if "." in m.path}
    inside = all(m.path.count(".") > 1 for m in match.contract.mappings)
    if {mistake.name for mistake in match.mistakes} != RESIDUAL or not inside or len(parts) != 1:
        return None
    own = replace(search.signature, adds_tokens=True)
    inner = BindingSearch(search.subject, own, steps=KNOWN_BY_NOW)
    found = _find_certain(inner)
    return None if found is None or _is_wrong(found) else (inner, found)


def _has_role_beside(search: BindingSearch, norms: Collection[str]) -> bool:
    """Whether every tensor with an effect has a role, if a class has no such norms.

    A whole layer, with a feed-forward or several attentions, is not searched once more.
    """
    for probe in search.probes:
        left_out = [p for p in probe.built.tensors if p.rpartition(".")[0] in norms]
        if next(search.iter_likely(probe.leave_out(left_out)), None) is not None:
            return True
    return False


def _list_norms(search: BindingSearch) -> set[str]:
    """Return the paths of norms that calls may leave out; none if no call returned with them."""
    built = [probe.built for probe in search.probes]
    if search.signature.entry is not Entry.CLASS:
        return set()
    latents = any("d_latent" in each.constructor.quantities for each in built)
    named = ANY_NORM if latents else NORM_OF_TOKENS
    return {p.rpartition(".")[0] for each in built for p in each.tensors if named.fullmatch(p)}


def _find_idle_norm(search: BindingSearch, norms: Iterable[str]) -> str:
    """Return the path of a norm that changes no result; "" if there is none."""
    tried = itertools.product(sorted(norms), search.probes[:MAX_TRIED])
    return next((norm for norm, probe in tried if probe.ignores(f"{norm}.")), "")


def _fix_scale(search: BindingSearch) -> tuple[BindingSearch, Match | None] | None:
    """Return the search and the match of a class whose scores a parameter scales.

    If such a class is not explained, but compares directions, the search is for other ways to
    explain it.
    """
    found: list[tuple[BindingSearch, Match | None]] = []
    for scale in find_learned_scales(search):
        inner = set_scale(search, scale, KNOWN_BY_NOW)
        match = _find_certain(inner)
        if match is not None and is_explained(inner, match):
            found.append((inner, match))
        elif match is None and scale.compares_directions:
            found.append((inner, None))
    return min(found, key=lambda each: each[1] is None or _is_wrong(each[1]), default=None)


def _lies_in_what_is_given(signature: Signature, match: Match) -> bool:
    """Whether the queries come from weights of an object that the constructor takes.

    Then this object is the attention, and is judged without what a class puts around it.
    """
    places = tuple(f"{maker.attribute}." for maker in signature.makers)
    queries = (m.path for m in match.contract.mappings if "W_q" in m.holds)
    return bool(places) and any(path.startswith(places) for path in queries)


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


def _find_certain(search: BindingSearch) -> Match | None:
    """Return the first match that is no coincidence, or else the match that names suggest.

    Calls at other sizes distinguish roles that are indistinguishable in one call.
    """
    named: Match | None = None
    for match in search.iter_matches():
        if match.mistakes or match.inexact:
            if named is None and match.guessed and (match.inexact or _makes_up_a_rate(match)):
                continue  # what was passed for an unknown argument may be what is wrong
            return named or match
        if _is_certain(search, match):
            return match
        named = named or (None if match.guessed else match)
    return named


def _find_with_positions(search: BindingSearch) -> Match | None:
    """Return the match of a class that adds positions to its tokens."""
    found = iter_with_positions(replace(search, steps=KNOWN_BY_NOW))
    return next((each for each in found if _is_wrong(each) or _is_certain(search, each)), None)


def _is_certain(search: BindingSearch, match: Match) -> bool:
    """Whether a class is exact at other sizes, too."""
    bench = Bench(search.subject, search.signature, match, Settled(match.contract))
    return all(_holds_at(bench, case) for case in (OTHER, NARROW))


def _fits_its_tables(search: BindingSearch, match: Match) -> bool:
    """Whether a class also takes the rotary tables of other sizes, if it is given any.

    Otherwise a table of another shape passed for the right one, and broke what came after it.
    """
    if {*(match.contract.call_form.given or {}).values()} <= CONSTANTS:
        return True
    bench = Bench(search.subject, search.signature, match, Settled(match.contract), OTHER)
    return bool(bench.call(replace(bench.contract.call_form, places=()), bench.x))


def _makes_up_a_rate(match: Match) -> bool:
    """Whether an argument is taken for a dropout rate although its name does not say so."""
    rates = (a.name for a in match.contract.arguments if a.quantity == "dropout")
    return match.guessed and any(guess_quantity(name) != "dropout" for name in rates)


def _holds_at(bench: Bench, case: Case) -> bool:
    """Whether a class is exact at other sizes, and can be trained.

    The check uses the mask that the class applies, not the mask that it should apply. If a size was
    mistaken for a dropout rate, only training shows this. Therefore a rate must have an effect in
    training, and only there.
    """
    made_up = _makes_up_a_rate(bench.match)
    bench = replace(bench, sized=replace(case, dropout=0.5 if made_up else 0.0))
    form, place = replace(bench.contract.call_form, places=()), bench.match.place
    wanted = bench.compute().output
    trained = bench.call(form, bench.x, training=True)
    acts = not made_up or not is_close(trained, wanted, place)
    return is_close(bench.call(form, bench.x), wanted, place) and bool(trained) and acts
