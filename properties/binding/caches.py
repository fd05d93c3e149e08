"""Find out how a class continues a sequence, if it returns a cache and takes it back."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum

import torch

from headcheck.properties.binding.bench import Bench, Settled, is_close
from headcheck.properties.binding.calls import guess_all_taken, list_mask_names
from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.harness.module_adapter import construct
from headcheck.properties.signatures.signature import Signature, SignatureParameter
from headcheck.properties.signatures.vocabulary import list_given
from headcheck.properties.subject import Chunk
from headcheck.properties.terms.call_form import CacheConvention, Given
from headcheck.properties.violations.violation import Status, SubmissionFailed

C = Capability
CACHE = re.compile(
    r"incremental_state|(.*_)?(kv_?)?(cache|past)(_(kv|key_values?|state))?|(layer_)?past(_\w+)?"
)
KEEPER = re.compile(r"cache|past|kv|memory|history", re.IGNORECASE)
"""words in the name of an object that keeps keys and values, or of its class"""
KEEPING = re.compile(r"(use_|with_)?(kv_?)?cache|incremental|decod(e|ing)")
"""names of options with which a class keeps keys and values"""
ASKING = re.compile(r"(use|return|output)_(kv_?)?(cache|past|presents?)")
"""names of options with which a call returns a cache"""
BEGINNING = 2
"""how many tokens the first call gets"""
PLACES = (1, 2)
"""the places at which a cache may be among the results"""
WHERE = frozenset({Given.ZERO, Given.POSITIONS, Given.COSINES, Given.COMPLEX, Given.BOTH})
"""what tells a call where its tokens stand, so that each part of a sequence needs other values"""
PLACING = (Given.ZERO, Given.POSITION_ROW, Given.POSITIONS)
"""the numbers of positions, of which a call without a cache may not show the kind"""
EMPTY = ("tuple", "dict")
"""what an empty cache may be besides None: such a dict is kept, and written into"""
ANEW = "a_call_without_a_cache_begins_anew"
"""what is not asked of a class that keeps a cache in every call from the first on"""
IN_PLACE = "a_cache_can_be_continued_twice"
KEPT = "kept_keys_and_values_are_not_computed_again"
"""what a class need not promise: it may write into the cache that it is given, and keep tokens"""


def settle_cache(bench: Bench) -> Settled:
    """Claim a cache if calls continue each other, or should: nothing else tells them places."""
    if not bench.contract.has(C.MODULE, C.CAUSAL) or bench.match.mistakes:
        return bench.settled
    kept = _find_kept_cache(bench)
    if kept is not None:
        return replace(bench.settled, contract=kept).claim(C.CACHE)
    found = [(_judge(bench, contract), contract) for contract in _iter_contracts(bench)]
    use, contract = min(found, key=lambda each: each[0], default=(_Use.NONE, bench.contract))
    told = use is not _Use.RIGHT and _is_told_places(bench)
    if use is _Use.NONE or told:
        return bench.settled
    unpromised = (IN_PLACE, KEPT) if contract.has(C.PROJECTED, C.UNCOMPRESSED) else (IN_PLACE,)
    waived = (*contract.waived, *unpromised)
    settled = replace(bench.settled, contract=replace(contract, waived=waived))
    return settled.claim(C.CACHE, C.HANDED_CACHE)


class _Use(IntEnum):
    """What calls do with a cache of a convention, the best first."""

    RIGHT = 0  # they continue each other
    USED = 1  # what an earlier call left changes the output of a later one
    IDLE = 2  # it does not, or the later call raises
    NONE = 3  # not even a first call takes it, or the class need not take it


def _judge(bench: Bench, contract: Contract) -> _Use:
    """Return what calls do with the cache of a contract.

    None begins a sequence in most classes. What else may begin one counts only if it is used.
    """
    if _decode(bench, contract, (BEGINNING,)) is None:
        return _Use.NONE
    output = _decode(bench, contract, (BEGINNING, bench.case.tokens - BEGINNING))
    if output is not None and is_close([output], bench.compute().output):
        return _Use.RIGHT
    alone = bench.call(bench.contract.call_form, bench.x[:, BEGINNING:])
    place = bench.match.place
    if output is not None and alone and not is_close(alone, output[:, BEGINNING:], place):
        return _Use.USED
    cache = contract.call_form.cache
    unsure = cache and (
        cache.made_by in EMPTY
        or not names_cache(cache.argument)
        or _is_ignored_beside_weights(bench, cache.argument)
    )
    return _Use.NONE if unsure else _Use.IDLE


def _is_ignored_beside_weights(bench: Bench, name: str) -> bool:
    """Whether weights may pass for a cache: nothing asks for one, and calls never read it."""
    if bench.contract.returns is not Returns.OUTPUT_AND_WEIGHTS or list_asking(bench.signature):
        return False
    form = bench.contract.call_form
    given = replace(form, given={**(form.given or {}), name: Given.TRUE})
    return is_close(bench.call(given, bench.x), bench.compute().output)


def _find_kept_cache(bench: Bench) -> Contract | None:
    """Return the contract of a class that keeps its cache until another sequence begins.

    Calls need an option that is True and a method that begins a sequence, or must do what the cache
    of a sequence is for: an earlier call changes a later one.
    """
    options = (p.name for p in bench.signature.call if p.default is False)
    named = next((name for name in options if KEEPING.fullmatch(name.lower())), "")
    if not (named or _is_told_places(bench)):
        return None
    reset = bench.signature.reset or None
    if not (reset or bench.contract.call_form.cleared):
        return None
    cache = CacheConvention(named, reset=reset)
    found = [(_judge(bench, own), own) for own in _iter_placed(bench, cache)]
    use, contract = min(found, key=lambda each: each[0], default=(_Use.NONE, bench.contract))
    if use > (_Use.IDLE if named else _Use.USED):
        return None
    return contract if named else replace(contract, waived=(*contract.waived, ANEW))


def _iter_placed(bench: Bench, cache: CacheConvention) -> Iterator[Contract]:
    """Yield the contract with a cache, with each kind of positions that calls may be told."""
    form = bench.contract.call_form
    taken = (*bench.signature.call, *bench.signature.given)
    told = {p.name: [k for k in list_given(p.name) if k in PLACING] for p in taken}
    told = {name: kinds for name, kinds in told.items() if kinds}
    for kinds in itertools.product(*told.values()):
        given = {**(form.given or {}), **dict(zip(told, kinds, strict=True))}
        own = replace(form, given=given or None)
        if is_close(bench.call(own, bench.x), bench.compute().output):
            # Calls without the option forget earlier ones without a method.
            own = replace(own, reset=None) if cache.argument else own
            yield replace(bench.contract, call_form=replace(own, cache=cache))


def _find_argument(bench: Bench) -> str | None:
    """Return the argument of a call that takes a cache, and is None in a first call.

    It may have any name if it is the only one beside a mask.
    """
    given, masks = bench.contract.call_form.given or {}, list_mask_names(bench.signature.call)
    optional = [p.name for p in bench.signature.call if p.has_default and p.default is None]
    every = [*optional, *(n for n, kind in given.items() if kind is Given.NONE)]
    others = [name for name in every if name not in masks]
    named = next((name for name in others if names_cache(name)), None)
    return others[0] if named is None and len(others) == 1 else named


def names_cache(name: str) -> bool:
    """Whether an argument with this name takes a cache."""
    return CACHE.fullmatch(name.lower()) is not None


def _is_told_places(bench: Bench) -> bool:
    """Whether some argument tells a call where its tokens stand."""
    taken = (*bench.signature.call, *bench.signature.given)
    return any(WHERE & {*list_given(parameter.name)} for parameter in taken)


def _iter_contracts(bench: Bench) -> Iterator[Contract]:
    """Yield the contract with each convention of a cache, with what asks for it."""
    form = bench.contract.call_form
    asking: Mapping[str, Given] = {p.name: Given.TRUE for p in list_asking(bench.signature)}
    for cache in _iter_conventions(bench):
        every = {**(form.given or {}), **asking}
        given = {name: kind for name, kind in every.items() if name != cache.argument}
        weights = bench.contract.returns is Returns.OUTPUT_AND_WEIGHTS
        own = replace(
            form,
            given=given or None,
            cache=replace(cache, beside_weights=weights),
            places=None if weights else (bench.match.place,),
        )
        yield replace(bench.contract, call_form=own)


def _iter_conventions(bench: Bench) -> Iterator[CacheConvention]:
    """Yield the places among the results where a cache may be, or the class that makes one."""
    for parameter in (*bench.signature.call, *bench.signature.given):
        for maker in parameter.makers:
            takes = guess_all_taken([each for each in maker.constructor if not each.has_default])
            if takes is not None and KEEPER.search(f"{maker.name} {parameter.name}"):
                own = CacheConvention(parameter.name, made_by=maker.name)
                yield replace(own, reset_takes=takes or None)
    name = _find_argument(bench)
    starts = (None, *EMPTY) if names_cache(name or "") else (None,)
    for made_by, place in itertools.product(starts, PLACES if name is not None else ()):
        yield CacheConvention(name or "", place, made_by=made_by)


def list_asking(signature: Signature) -> list[SignatureParameter]:
    """Return the options with which a call returns a cache."""
    options = (p for p in signature.call if p.default is False)
    return [p for p in options if ASKING.fullmatch(p.name.lower())]


def _decode(bench: Bench, contract: Contract, lengths: Sequence[int]) -> torch.Tensor | None:
    """Return the outputs of a sequence in calls with so many tokens.

    None if the class raises, or if it keeps nothing: then what began the sequence begins none.
    """
    parts = bench.x[:, : sum(lengths)].split(list(lengths), dim=1)
    chunks = [Chunk(part, number - 1 if number else None) for number, part in enumerate(parts)]
    try:
        adapter = construct(bench.subject, contract, bench.case, seed=1)
        adapter.set(bench.parameters)
        results = adapter.decode(chunks, counted=True)
    except SubmissionFailed as failure:
        if failure.status is not Status.CRASHED:
            raise
        return None
    cache = contract.call_form.cache
    if cache is not None and not cache.is_kept and not results[0].kept:
        return None
    return torch.cat([result.outputs[0].double() for result in results], dim=1)
