"""Explain a class as attention: as it is, or with options, without norms, or with residuals."""

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from headcheck.properties.binding.bench import Bench, Settled, is_close
from headcheck.properties.binding.hypotheses import NARROW, OTHER
from headcheck.properties.binding.matching import find_exact
from headcheck.properties.binding.probe import refine
from headcheck.properties.binding.search import BindingSearch, Match
from headcheck.properties.binding.ways import EXACT, MAX_STEPS
from headcheck.properties.contracts.contract import CONSTANT, Argument, Capability, Entry
from headcheck.properties.contracts.implied_capabilities import restate_steps
from headcheck.properties.parts.norms import iter_without_gains
from headcheck.properties.signatures.signature import Signature, SignatureParameter
from headcheck.properties.signatures.vocabulary import guess_quantity
from headcheck.properties.terms.case import Case

NORM_OF_TOKENS = re.compile(
    r"(\w+\.)*(?!([qk]|query|key)_?\w*norm|\w*norm_?([qk]|query|key)\b)"
    r"(\w*norm\w*|\w*ln_?\d*)(\.\w+)*\.\w+",
    re.IGNORECASE,
)
"""paths of parameters of layers that norm tokens, but not of those that norm queries and keys"""
ANY_NORM = re.compile(r"(\w+\.)*\w*(norm|ln)\w*\.\w+", re.IGNORECASE)
"""paths of parameters of norms in a class with latents, which are also normed"""
MAX_TRIED = 2
"""how many ways to call a class are tried to see whether a norm has an effect"""
MAX_OPTIONS = 3
"""how many options of a constructor are switched on, one at a time"""
KNOWN_BY_NOW = int(MAX_STEPS * EXACT) - 700
"""budget already charged to later searches, which seldom succeed"""
INNER = re.compile(r"\.in_proj_(weight|bias)$")
"""the paths of weights of a `torch.nn.MultiheadAttention` inside a class"""
KERNELS = re.compile(r"flash|fused|sdpa|fast|efficient|triton|xformers|compile", re.IGNORECASE)
"""names of options that say how the same attention is computed: both ways must be right"""
NORMED = frozenset({"queries_and_keys_normalised"})
"""the mistake that norms of queries and keys would be if a statement did not ask for them"""
SAID_OF_NORMS = (
    "its queries and keys go through a norm that learns nothing: if that is not meant, it is a "
    "mistake"
)
RESIDUAL = frozenset({"residual_added"})
"""the mistake that a residual would be without a norm beside it"""


def find_explanation(search: BindingSearch) -> tuple[BindingSearch, Match | None]:
    """Return the search that explains a class, perhaps with other calls or options, and its match.

    Without a match, the search is the one that other ways to explain the class go on from.
    """
    match = find_certain(search)
    if match is None:
        search, match = _unwrap(search) or (search, None)
    if match is None:
        search, match = _take_one(search) or (search, None)
    if match is not None and is_wrong(match):
        normed = _read_as_normed(search, match)
        if normed is not None:
            return search, normed
        return _take_off(search, match) or _switch_on(search) or (search, match)
    return search, match


def is_wrong(match: Match) -> bool:
    """Whether a class is explained only as one that is wrong."""
    return bool(match.mistakes) or match.inexact


def _switch_on(search: BindingSearch) -> tuple[BindingSearch, Match] | None:
    """Return the search and the match of a class that is right if one of its options is on.

    As of GPT-2's attention, whose `scale=False` is for those who ask for nothing else.
    """
    for own in _iter_switched_on(search.signature):
        switched = BindingSearch(search.subject, own, steps=KNOWN_BY_NOW)
        match = find_certain(switched)
        if match is not None and not is_wrong(match):
            return switched, match
    return None


def _iter_switched_on(signature: Signature) -> Iterator[Signature]:
    """Yield the options of a class that are off, each with the signature that has it on.

    They are arguments of its constructor, or fields of its config.
    """
    arguments = [
        (p.name, replace(signature, constructor=_require(signature.constructor, p)))
        for p in signature.constructor
        if p.default is False
    ]
    fields = [
        (p.name, replace(signature, switched_on=(p.name,)))
        for p in signature.options
        if p.default is False
    ]
    every = (way for way in (*arguments, *fields) if not KERNELS.search(way[0]))
    yield from (own for _, own in itertools.islice(every, MAX_OPTIONS))


def _require(
    parameters: Sequence[SignatureParameter], option: SignatureParameter
) -> tuple[SignatureParameter, ...]:
    """Return the parameters with an option that is always given, by name, and so is on."""
    on = replace(option, has_default=False, by_name=True)
    return tuple(on if p is option else p for p in parameters)


def _unwrap(search: BindingSearch) -> tuple[BindingSearch, Match] | None:
    """Return the search and the match of a class without norms of tokens, or of latents.

    A block that computes its attention itself also has a feed-forward, which is silenced. Beside
    either, tokens that are added to the output are a residual, and are taken off. A norm that
    changes nothing is not left out: it may be what is wrong.
    """
    norms, silenced = list_norms(search), list_feed_forwards(search)
    if not (norms or silenced) or find_idle_norm(search, norms):
        return None
    if not _has_role_beside(search, norms, silenced):
        return None
    left_out = replace(search.signature, bypassed=tuple(sorted(norms)), silenced=silenced)
    for adds_tokens in (False, True):
        own = replace(left_out, adds_tokens=adds_tokens)
        inner = BindingSearch(search.subject, own, steps=KNOWN_BY_NOW)
        match = find_certain(inner)
        if match is not None and not RESIDUAL & {mistake.name for mistake in match.mistakes}:
            return inner, match
        search.inner.append(inner)
    return None


def _take_one(search: BindingSearch) -> tuple[BindingSearch, Match] | None:
    """Return the search and the match of a class that is right for a single sequence alone."""
    if not search.probes:
        return None
    alone = BindingSearch(search.subject, search.signature, steps=KNOWN_BY_NOW, alone=True)
    match = find_certain(alone)
    return None if match is None or is_wrong(match) else (alone, match)


def _read_as_normed(search: BindingSearch, match: Match) -> Match | None:
    """Return the match of a class whose norms of queries and keys learn nothing.

    They leave no weight by which they could be found, and only a statement could rule them out.
    """
    if {mistake.name for mistake in match.mistakes} != NORMED:
        return None
    seen = [probe for probe in search.probes if probe.sizes == match.sizes]
    for contract, probe in itertools.product(iter_without_gains(match.contract), seen):
        own = restate_steps(refine(contract, match.sizes, probe, match.place))
        found = replace(match, contract=own, mistakes=(), remark=SAID_OF_NORMS)
        exact = find_exact(own, match.sizes.case, probe.seen) == match.place
        if exact and _is_certain(search, found):
            return found
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
    found = find_certain(inner)
    return None if found is None or is_wrong(found) else (inner, found)


def _has_role_beside(
    search: BindingSearch, norms: Collection[str], silenced: Collection[str]
) -> bool:
    """Whether every tensor with an effect has a role, if a class has no such norms and weights.

    A whole layer around other classes, or with several attentions, is not searched once more.
    """
    for probe in search.probes:
        left_out = [p for p in probe.built.tensors if p.rpartition(".")[0] in norms]
        left_out += silenced
        if next(search.iter_likely(probe.leave_out(left_out)), None) is not None:
            return True
    return False


def list_norms(search: BindingSearch) -> set[str]:
    """Return the paths of norms that calls may leave out; none if no call returned with them."""
    built = [probe.built for probe in search.probes]
    if search.signature.entry is not Entry.CLASS:
        return set()
    latents = any("d_latent" in each.constructor.quantities for each in built)
    named = ANY_NORM if latents else NORM_OF_TOKENS
    return {p.rpartition(".")[0] for each in built for p in each.tensors if named.fullmatch(p)}


def list_feed_forwards(search: BindingSearch) -> tuple[str, ...]:
    """Return the paths of the weights of feed-forwards beside attention that a class computes.

    There are a matrix from the tokens' width to a hidden one, and one from there back. None of a
    class whose attention is another's, which is judged by itself.
    """
    if search.signature.entry is not Entry.CLASS:
        return ()
    for probe in search.probes[:1]:
        case, tensors = probe.sizes.case, probe.built.tensors
        learned = ((p, i) for p, i in tensors.items() if i.kind == "parameter")
        shapes = {p: i.shape for p, i in learned if len(i.shape) == 2}
        known = {case.d_in, case.d_out, case.kv_heads * case.head_dim}
        there = {a for a, b in shapes.values() if b == case.d_in}
        back = {b for a, b in shapes.values() if a == case.d_in}
        hidden = (there & back) - known
        inside = {p.rpartition(".")[0] for p, shape in shapes.items() if hidden & {*shape}}
        others = [p for p in shapes if p.rpartition(".")[0] not in inside]
        if any(path.count(".") < 2 and not INNER.search(path) for path in others):
            return tuple(p for p in tensors if p.rpartition(".")[0] in inside)
    return ()


def find_idle_norm(search: BindingSearch, norms: Iterable[str]) -> str:
    """Return the path of a norm that changes no result; "" if there is none."""
    tried = itertools.product(sorted(norms), search.probes[:MAX_TRIED])
    return next((norm for norm, probe in tried if probe.ignores(f"{norm}.")), "")


def find_certain(search: BindingSearch) -> Match | None:
    """Return the first match that is no coincidence, or else the match that names suggest.

    Calls at other sizes distinguish roles that are indistinguishable in one call.
    """
    named: Match | None = None
    for match in search.iter_matches():
        if match.mistakes or match.inexact:
            if (
                named is None
                and match.guessed
                and (match.inexact or makes_up_a_rate(search.signature, match))
            ):
                continue  # what was passed for an unknown argument may be what is wrong
            return named or match
        certain = next(
            (m for m in _iter_meant(search.signature, match) if _is_certain(search, m)), None
        )
        if certain is not None:
            return certain
        named = named or (None if match.guessed else match)
    return named


def _iter_meant(signature: Signature, match: Match) -> Iterator[Match]:
    """Yield a match, and one in which what was taken for a rate of dropout is a switch."""
    yield match
    if makes_up_a_rate(signature, match):
        arguments = (
            Argument(a.name, CONSTANT, default=False) if _is_made_up(signature, a) else a
            for a in match.contract.arguments
        )
        kept = match.contract.capabilities - {Capability.DROPOUT}
        contract = replace(match.contract, arguments=tuple(arguments), capabilities=kept)
        yield replace(match, contract=restate_steps(contract))


def _is_certain(search: BindingSearch, match: Match) -> bool:
    """Whether a class is exact at other sizes, too."""
    bench = Bench(search.subject, search.signature, match, Settled(match.contract))
    return all(_holds_at(bench, case) for case in (OTHER, NARROW))


def makes_up_a_rate(signature: Signature, match: Match) -> bool:
    """Whether an argument is taken for a rate of dropout although nothing says that it is one."""
    return any(_is_made_up(signature, argument) for argument in match.contract.arguments)


def _is_made_up(signature: Signature, argument: Argument) -> bool:
    stated = {p.name for p in signature.constructor if p.quantity == "dropout"}
    said = argument.name in stated or guess_quantity(argument.name) == "dropout"
    return argument.quantity == "dropout" and not said


def _holds_at(bench: Bench, case: Case) -> bool:
    """Whether a class is exact at other sizes, and can be trained.

    The check uses the mask that the class applies, not the mask that it should apply. If a size was
    mistaken for a dropout rate, only training shows this. Therefore a rate must have an effect in
    training, and only there.
    """
    made_up = makes_up_a_rate(bench.signature, bench.match)
    bench = replace(bench, sized=replace(case, dropout=0.5 if made_up else 0.0))
    form, place = replace(bench.contract.call_form, places=()), bench.match.place
    wanted = bench.compute().output
    trained = bench.call(form, bench.x, training=True)
    acts = not made_up or not is_close(trained, wanted, place)
    return is_close(bench.call(form, bench.x), wanted, place) and bool(trained) and acts
