"""Find out what a class does with its masks: their meaning, their shapes, and their effect."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.binding.bench import Bench, Settled, is_close
from headcheck.properties.binding.calls import (
    LENGTHS,
    MASK_CONVENTIONS,
    find_mask_name,
    iter_forms_of,
    keep_one_mask,
    list_mask_names,
    list_mask_sources,
)
from headcheck.properties.binding.intent import find_stated_polarity
from headcheck.properties.binding.matching import Observation, find_mistakes
from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.cases.case_tensors import draw_normal
from headcheck.properties.cases.fitting_mask import restrict_mask, show_own_keys
from headcheck.properties.contracts.contract import Capability, Returns
from headcheck.properties.contracts.implied_capabilities import restate_steps, takes
from headcheck.properties.terms.call_form import CallForm, MaskConvention, MaskSource, Polarity

C = Capability
UNDEFINED = re.compile(r"NameError|UnboundLocalError")
"""an error that no other mask would avoid"""
FAULT = re.compile(
    r"NameError|UnboundLocalError|TypeError: .*(unexpected keyword argument|positional argument"
    r"|invalid combination of arguments|object is not callable)"
)
"""an error of the code itself, not of the kind of mask that it was given"""

ALMOST = 0.3
"""a mask is of a kind if it does most of what a mask of this kind does"""
ONES = re.compile(r"\b(1|ones?)\b", re.IGNORECASE)
"""words for what no mask holds that is added, if a 1 shows a key"""
ADDED = re.compile(r"\badd|inf\b|\bbias", re.IGNORECASE)
"""words for a mask that is added"""
TURNS = re.compile(r"\((num_?windows|nW), ", re.IGNORECASE)
"""the shape of a mask for each window, in a docstring"""
BIAS = re.compile(r"(.*_)?bias")
"""the name of a mask that may hold any numbers"""
DIGITS = re.compile(r"\b1\b.*\b0\b|\b0\b.*\b1\b", re.DOTALL)
"""the entries of a mask of integers, as a docstring says them"""
BOOLEAN = re.compile(r"\b(true|false)\b", re.IGNORECASE)


def settle_mask(bench: Bench) -> Settled:
    """Find out the meaning of a mask, its possible shapes, and whether it has an effect."""
    name = find_mask_name(bench.signature.call)
    if name is None:
        return bench.settled
    if bench.contract.call_form.joins_queries:
        return bench.settled.add(f"its `{name}` is not judged: it may be of the context alone")
    form = _add_mask(bench, name)
    required = bench.contract.call_form.mask.required
    every = itertools.chain(_iter_turns(bench, form), _iter_conventions(name, form))
    for convention in every:
        own = replace(form, mask=replace(convention, required=required))
        if _follows(bench, own):
            return _claim_bias(bench, _take_in_turn(bench, own), name)
    other = _find_other_mask(bench, form, name)
    if other is not None:
        settled = _claim_mask(bench, other)
        return settled.add(f"the meaning of its argument `{name}` is not known, and not judged")
    errors = {} if required else _list_errors(bench, form, name)
    if errors:
        return _blame_errors(bench, name, errors)
    # So a check fails: it changes nothing, or something else than it should.
    causal = bench.contract.has(C.CAUSAL)
    claimed = (_find_idle(bench, form, name) or _find_replacing(bench, form)) if causal else None
    claimed = claimed or _find_mistaken_mask(bench, form, name) or _find_nearest_mask(bench, form)
    claimed = claimed or _find_misread_lengths(bench, form, name)
    if claimed is not None:
        return _claim_mask(bench, claimed)
    if causal:
        text = f"its `{name}` hides later tokens; any other effect of it is not judged"
        return bench.settled.add(text)
    return bench.settled.add(f"the meaning of its argument `{name}` is not known, and not judged")


def _blame_errors(bench: Bench, name: str, errors: Mapping[str, CallForm]) -> Settled:
    """Claim a mask if the class is to blame that every call with one raises: a check quotes it."""
    own = (form for error, form in errors.items() if UNDEFINED.match(error))
    form = next(own, next(iter(errors.values())))
    if any(map(UNDEFINED.match, errors)) or (len(errors) == 1 and all(map(FAULT.match, errors))):
        return _claim_mask(bench, form)
    if _says_turns(bench):
        added = replace(form.mask, axes=3, in_turn=True, polarity=Polarity.ADDED)
        return _claim_mask(bench, replace(form, mask=added))
    return bench.settled.add(f"it takes no mask: every call with its `{name}` raises")


def _find_other_mask(bench: Bench, form: CallForm, first: str) -> CallForm | None:
    """Return the form of a call that passes another argument, by name, as a mask that is followed.

    A class may take one mask of queries and one of keys.
    """
    if bench.contract.has(C.CAUSAL) or form.mask.required:
        return None
    named = (replace(form.mask, argument=n) for n in list_mask_names(bench.signature.call))
    for mask in named:
        if mask.argument != first:
            own = replace(form, mask=mask)
            for convention in _iter_conventions(mask.argument or "", own):
                if _follows(bench, replace(own, mask=convention)):
                    return replace(own, mask=convention)
    return None


def _find_idle(bench: Bench, form: CallForm, name: str) -> CallForm | None:
    """Return a form in which the class takes a mask if no form of mask changes anything."""
    without = bench.call(bench.contract.call_form, bench.x)
    taken: list[CallForm] = []
    for convention in _iter_conventions(name, form):
        own = replace(form, mask=replace(convention, required=form.mask.required))
        answers = [bench.call(own, bench.x, keep) for keep in _iter_typed_masks(bench, own)]
        if any(a and not (without and is_close(a, without[0].double())) for a in answers):
            return None
        taken += [own] * all(answers)
    return taken[0] if taken else None


def _find_replacing(bench: Bench, form: CallForm) -> CallForm | None:
    """Return a form whose masks of keys are followed, but show later tokens.

    They may also show what earlier tokens would see without them. A mask with an axis for queries
    may be meant to replace the causal one.
    """
    capabilities = bench.contract.capabilities - {C.CAUSAL}
    contract = replace(bench.contract, capabilities=capabilities)
    shown = replace(bench, settled=replace(bench.settled, contract=contract))
    of_keys = (c for c in _iter_conventions("", form) if c.keys_only and c.axes in (2, 4))
    forms = (replace(form, mask=replace(c, required=form.mask.required)) for c in of_keys)
    return next((own for own in forms if _follows(shown, own) or _adds_keys(shown, own)), None)


def _adds_keys(bench: Bench, form: CallForm) -> bool:
    """Whether a query sees what a mask shows, and what the causal mask shows."""
    tokens = bench.case.tokens
    earlier = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    return all(
        is_close(bench.call(form, bench.x, keep), bench.compute((keep != 0) | earlier).output)
        for keep in _iter_typed_masks(bench, form)
    )


def _list_errors(bench: Bench, form: CallForm, name: str) -> dict[str, CallForm]:
    """Return what the class raises with any form of mask; nothing if it takes one of them."""
    errors: dict[str, CallForm] = {}
    for convention in _iter_conventions(name, form):
        own = replace(form, mask=convention)
        for keep in _draw_masks(bench, convention):
            error = bench.find_error(own, bench.x, keep)
            if not error:
                return {}
            errors.setdefault(error, own)
    return errors


def _add_mask(bench: Bench, name: str) -> CallForm:
    """Return the call form with a mask, by name if what stands before it is not an input."""
    own = bench.contract.call_form
    whole = next(f.inputs for f in iter_forms_of(bench.signature) if "mask" in f.inputs)
    tokens = [role for role in own.inputs if role != "mask"]
    if whole.index("mask") > len(tokens):
        return replace(own, inputs=(*tokens, "mask"), mask=replace(own.mask, argument=name))
    tokens.insert(whole.index("mask"), "mask")
    return replace(own, inputs=tuple(tokens))


def _claim_mask(bench: Bench, form: CallForm) -> Settled:
    contract = restate_steps(replace(bench.contract, call_form=form, call=form.inputs))
    kind = C.PADDING if form.mask.keys_only else C.MASK
    return replace(bench.settled, contract=contract).claim(kind, C.TAKES_MASK)


def _claim_bias(bench: Bench, form: CallForm, name: str) -> Settled:
    """Claim a mask that is followed; if it is added, and named a bias, it may hold any numbers."""
    settled = _claim_as_stated(bench, form, name)
    added = settled.contract.call_form.mask.polarity is Polarity.ADDED
    if not added or not BIAS.fullmatch(name.lower()):
        return settled
    numbers = draw_normal(bench.case, "mask", *next(_draw_masks(bench, form.mask)).shape)
    results = bench.call(form, bench.x, numbers, manner="added")
    scale = get_scale(bench.contract, bench.case)
    if scale != 1 and is_close(results, bench.compute(added=numbers * scale).output):
        return settled.add(f"its `{name}` is added before the scores are scaled")
    return settled.claim(C.BIAS_MASK)


def _claim_as_stated(bench: Bench, form: CallForm, name: str) -> Settled:
    """Claim a mask that is followed; if the class says the opposite of its entries, claim that."""
    stated = find_stated_polarity(keep_one_mask(bench.signature, name), name)
    mask = form.mask
    entries = mask.given_as is MaskSource.MASK
    added = mask.polarity is Polarity.ADDED
    if stated is not None and _misreads_integers(bench, form, stated):
        settled = _claim_mask(bench, replace(form, mask=replace(mask, dtype="int64")))
        return settled.add(f"its mask has numbers, as the class says: “{stated[1]}”")
    if stated is None or not entries or stated[0] is mask.polarity:
        return _claim_mask(bench, form)
    ones = stated[0] is Polarity.KEEP and ONES.search(stated[1]) and not ADDED.search(stated[1])
    if added and not (ones or BOOLEAN.search(stated[1])):
        return _claim_mask(bench, form)  # numbers may be said to show and to hide
    dtype = mask.dtype if not added else "int64" if ones else "bool"
    said = replace(mask, polarity=stated[0], dtype=dtype, fill=-math.inf)
    settled = _claim_mask(bench, replace(form, mask=said))
    return settled.add(f"what its mask means is what the class says of it: “{stated[1]}”")


def _misreads_integers(bench: Bench, form: CallForm, stated: tuple[Polarity, str]) -> bool:
    """Whether a class says that its mask has ones and zeros, but follows booleans alone.

    It may refuse integers; what takes them, and does something else, is wrong.
    """
    polarity, words = stated
    mask = form.mask
    if mask.dtype != "bool" or mask.polarity is not polarity or BOOLEAN.search(words):
        return False
    keep = next(_draw_masks(bench, mask))
    integers = replace(form, mask=replace(mask, dtype="int64"))
    return DIGITS.search(words) is not None and bool(bench.call(integers, bench.x, keep))


def _iter_conventions(name: str, form: CallForm) -> Iterator[MaskConvention]:
    """Yield what the mask of a form may be, passed as the form says."""
    whole = itertools.product((None, 4, 3, 2), MASK_CONVENTIONS, (False,))
    of_keys = itertools.product((2, 4, 3), MASK_CONVENTIONS, (True,))
    yield from (replace(each, argument=form.mask.argument) for each in list_mask_sources(name))
    for axes, convention, keys_only in (*whole, *of_keys):
        yield replace(convention, axes=axes, keys_only=keys_only, argument=form.mask.argument)


def _iter_turns(bench: Bench, form: CallForm) -> Iterator[MaskConvention]:
    """Yield what the masks of windows may be, of which each image has as many as windows."""
    if takes("side", "sides")(bench.contract):
        for convention in MASK_CONVENTIONS[1:4]:
            yield replace(convention, axes=3, in_turn=True, argument=form.mask.argument)


def _says_turns(bench: Bench) -> bool:
    """Whether a class of windows says that its mask has one for each window."""
    windows = takes("side", "sides")(bench.contract)
    return windows and TURNS.search(bench.signature.doc) is not None


def _take_in_turn(bench: Bench, form: CallForm) -> CallForm:
    """Return the form with masks in turn if a class of windows takes these, or says so."""
    if not takes("side", "sides")(bench.contract) or form.mask.in_turn:
        return form
    turns = replace(form, mask=replace(form.mask, axes=3, in_turn=True))
    if _says_turns(bench):
        return turns
    several = _crowd(bench)
    keep = next(_draw_masks(several, turns.mask))
    return turns if form.mask.axes == 3 and several.call(turns, several.x, keep) else form


def _draw_masks(bench: Bench, convention: MaskConvention) -> Iterator[Tensor]:
    """Yield masks of all shapes that a convention allows, each of which hides something."""
    b, h, t = bench.case.batch, bench.case.heads, bench.case.tokens
    shapes: dict[int | None, list[tuple[int, ...]]] = {
        None: [(t, t), (b, h, t, t), (b, 1, 1, t)],
        4: [(1, 1, t, t), (b, h, t, t)],
        3: [(b, 1, t, t)],
        2: [(t, t)],
    }
    wanted = [(b, 1, 1, t)] if convention.keys_only else shapes[convention.axes]
    if convention.given_as is not MaskSource.MASK and not convention.keys_only:
        wanted = [(b, 1, t, t)]
    if replace(convention, argument=None) == LENGTHS:  # of each query, or of each sequence
        wanted = [*wanted, (b, 1, 1, t)]
    for number, shape in enumerate(wanted):
        drawn = draw_normal(replace(bench.case, seed=number + 1), "mask", *shape)
        keep = drawn < 0.4
        keep.scatter_(-1, drawn.argmin(-1, keepdim=True), True)
        restricted = restrict_mask(convention, keep)
        yield show_own_keys(bench.contract, bench.case, restricted)


def _follows(bench: Bench, form: CallForm) -> bool:
    """Whether masks in this form are followed, in every shape."""
    batched = bench.contract.has(C.BATCH)
    few = batched and form.mask.axes != 2 and bench.case.batch < bench.case.tokens
    if few and not _follows(_crowd(bench), form):
        return False  # a slice for the tokens would cut the batch
    return all(
        is_close(bench.call(form, bench.x, keep), bench.compute(keep).output)
        for keep in _iter_typed_masks(bench, form)
    )


def _iter_typed_masks(bench: Bench, form: CallForm) -> Iterator[Tensor]:
    """Yield masks of all shapes and dtypes that a form allows."""
    types = (torch.bool, torch.int64, torch.float32) if form.mask.dtype is None else (torch.bool,)
    yield from (keep.to(dtype) for keep in _draw_masks(bench, form.mask) for dtype in types)


def _crowd(bench: Bench) -> Bench:
    """Return the bench with more sequences than tokens, and an even number, as of two images."""
    return replace(bench, sized=replace(bench.case, batch=bench.case.tokens // 2 * 2 + 2))


def _find_mistaken_mask(bench: Bench, form: CallForm, name: str) -> CallForm | None:
    """Return a form in which a mask has no effect, or has the effect of a known mistake.

    A whole mask may stand for the causal one, so where this is known only masks of keys are tried.
    """
    usual = () if bench.contract.has(C.CAUSAL) else MASK_CONVENTIONS[:4]
    of_keys = (replace(each, axes=2, keys_only=True) for each in MASK_CONVENTIONS[1:3])
    cut = (replace(each, axes=axes) for axes in (3, 4, 2) for each in usual)
    for convention in (*list_mask_sources(name), *usual, *of_keys, *cut):
        taken = {"argument": form.mask.argument, "required": form.mask.required}
        own = replace(form, mask=replace(convention, **taken))
        answers = [bench.call(own, bench.x, each) for each in _iter_typed_masks(bench, own)]
        if not all(answers):
            continue
        keep, results = next(_draw_masks(bench, convention)), answers[0]
        alone = replace(bench, sized=replace(bench.case, batch=1))
        idle = is_close(results, bench.compute().output)
        if idle and own.mask.argument is not None and not form.mask.required:
            continue  # a mask beside another one may be of something else that is not given
        if _is_broken_by(results, keep, own.mask):
            return _read_as_showing_most(bench, own, keep)
        if idle or _follows(alone, own):
            return own
        stored = dict(bench.contract.to_stored(bench.parameters, bench.case))
        seen = Observation(bench.x, stored, results[:1], keep)
        claimed = replace(_claim_mask(bench, own).contract, returns=Returns.OUTPUT)
        if next(find_mistakes(claimed, bench.case, seen), None):
            return own
    return None


def _find_misread_lengths(bench: Bench, form: CallForm, name: str) -> CallForm | None:
    """Return a form with lengths if tokens within them do not attend as these say.

    What padding gives, beyond the lengths, is for each class to choose.
    """
    of_keys = replace(LENGTHS, keys_only=True)
    own = replace(form, mask=replace(of_keys, argument=form.mask.argument))
    if of_keys not in list_mask_sources(name):
        return None
    keep = next(_draw_masks(bench, of_keys))
    results, right = bench.call(own, bench.x, keep), bench.compute(keep).output
    if not results or results[0].shape != right.shape:
        return None
    within = keep[:, 0, 0]
    return None if is_close([results[0][within]], right[within]) else own


def _is_broken_by(results: Sequence[Tensor], keep: Tensor, mask: MaskConvention) -> bool:
    """Whether a mask gives NaN to a query that sees some keys, whatever the entries mean."""
    if mask.given_as is not MaskSource.MASK or mask.polarity is Polarity.ADDED:
        return False
    mixed = keep.any(-1) & ~keep.all(-1)
    sees_some = mixed.movedim(-1, 0).reshape(mixed.shape[-1], -1).all(1)
    broken = ~results[0].isfinite().all(-1)
    of_queries = broken.dim() == 2 and len(sees_some) in (1, broken.shape[1])
    return of_queries and bool((broken & sees_some).any())


def _read_as_showing_most(bench: Bench, form: CallForm, keep: Tensor) -> CallForm:
    """Return the form, or the one whose entries mean the opposite, if that changes less.

    A mask that hides one key from one query changes little, unless its entries are misread.
    """
    one = torch.ones_like(keep)
    one[..., -1, 0] = False
    opposite = {Polarity.KEEP: Polarity.BLOCK, Polarity.BLOCK: Polarity.KEEP}
    turned = replace(form.mask, polarity=opposite[form.mask.polarity], dtype="bool")
    forms = form, replace(form, mask=turned)
    if form.mask.required:
        return form
    without = bench.call(bench.contract.call_form, bench.x)
    changes = [_measure_change(without, bench.call(each, bench.x, one)) for each in forms]
    return forms[changes.index(min(changes))]


def _measure_change(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    """Return how far the first results of two calls are apart; infinity if one is not finite."""
    if not before or not after or not bool(after[0].isfinite().all()):
        return math.inf
    return float((after[0] - before[0]).norm())


def _find_nearest_mask(bench: Bench, form: CallForm) -> CallForm | None:
    """Return the form whose masks are almost followed, or are followed when transposed.

    A mask that leaves hidden keys a small weight is still a mask of its kind, and no other.
    """
    kinds, causal = MASK_CONVENTIONS[:4], bench.contract.has(C.CAUSAL)
    usual, sizes = ((), (2,)) if causal else (kinds, (2, 4))
    of_keys = (replace(each, axes=axes, keys_only=True) for axes in sizes for each in kinds)
    found: list[tuple[float, CallForm]] = []
    for convention in (*usual, *of_keys):
        own = replace(form, mask=replace(convention, argument=form.mask.argument))
        keep = next(_draw_masks(bench, convention))
        wanted = [keep] if convention.keys_only else [keep, keep.mT]
        found += [(_measure_neglect(bench, own, keep, each), own) for each in wanted]
    least, nearest = min(found, key=lambda each: each[0])
    return nearest if least < ALMOST else None


def _measure_neglect(bench: Bench, form: CallForm, given: Tensor, wanted: Tensor) -> float:
    """Return how far a call is from one with a mask, as a share of what this mask changes."""
    results = bench.call(form, bench.x, given)
    right, without = bench.compute(wanted).output, bench.compute().output
    if not results or results[0].shape != right.shape or not bool(results[0].isfinite().all()):
        return math.inf
    return float((results[0] - right).norm() / (without - right).norm())
