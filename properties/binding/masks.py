"""Find out what a class does with its masks: their meaning, their shapes, and their effect."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from headcheck.properties.binding import grounds
from headcheck.properties.binding.bench import Bench, Settled, is_close
from headcheck.properties.binding.calls import (
    find_mask_name,
    iter_forms_of,
    keep_one_mask,
    list_mask_names,
)
from headcheck.properties.binding.followed_masks import (
    claim_mask,
    draw_masks,
    follows,
    iter_conventions,
)
from headcheck.properties.binding.intent import find_stated_polarity
from headcheck.properties.binding.mistaken_masks import find_unfollowed
from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.cases.case_tensors import draw_normal
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.contracts.implied_capabilities import takes
from headcheck.properties.terms.call_form import CallForm, MaskSource, Polarity

C = Capability
UNDEFINED = re.compile(r"NameError|UnboundLocalError")
"""an error that no other mask would avoid"""
FAULT = re.compile(
    r"NameError|UnboundLocalError|TypeError: .*(unexpected keyword argument|positional argument"
    r"|invalid combination of arguments|object is not callable)"
)
"""an error of the code itself, not of the kind of mask that it was given"""

ONES = re.compile(r"\b(1|ones?)\b", re.IGNORECASE)
"""words that rule out an additive mask: it never marks a visible key with 1"""
ADDED = re.compile(r"\badd|inf\b|\bbias", re.IGNORECASE)
"""words for a mask that is added"""
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
        return bench.settled  # it may be of the context alone
    if takes("side", "sides")(bench.contract):
        return bench.settled.add(f"its `{name}` is not judged: each window may have one")
    return _settle_mask(bench, name)


def _settle_mask(bench: Bench, name: str) -> Settled:
    form = add_mask(bench, name)
    required = bench.contract.call_form.mask.required
    for convention in iter_conventions(name, form):
        own = replace(form, mask=replace(convention, required=required))
        if follows(bench, own):
            return _claim_bias(bench, own, name)
    other = _find_other_mask(bench, form, name)
    if other is not None:
        settled = claim_mask(bench, other)
        return settled.add(f"the meaning of its argument `{name}` is not known, and not judged")
    remark = _find_exception(bench, form, name)
    if remark:
        return bench.settled.add(remark)
    errors = {} if required else _list_errors(bench, form, name)
    if errors:
        return _blame_errors(bench, name, errors)
    # So a check fails: it changes nothing, or something else than it should.
    claimed = find_unfollowed(bench, form, name)
    if claimed is not None:
        return claim_mask(bench, claimed)
    if bench.contract.has(C.CAUSAL):
        text = f"its `{name}` hides later tokens; any other effect of it is not judged"
        return bench.settled.add(text)
    return bench.settled.add(f"the meaning of its argument `{name}` is not known, and not judged")


def _find_exception(bench: Bench, form: CallForm, name: str) -> str:
    """Return a remark on where a class does not follow its masks, and need not; "" if it must.

    What padding gives is of no use: it may be zero, or of the padding itself.
    """
    own_token, plain = torch.eye(bench.case.tokens, dtype=torch.bool), bench.compute().output
    for convention in iter_conventions(name, form):
        of_keys = convention.keys_only or convention.given_as is MaskSource.LENGTHS
        mask = replace(convention, keys_only=of_keys, required=form.mask.required)
        masks = list(draw_masks(bench, mask))
        if convention.keys_only:  # where later tokens are hidden, only padding at the start tells
            masks += [keep.flip(-1) for keep in masks]
        got = [bench.call(replace(form, mask=mask), bench.x, keep) for keep in masks]
        if all(is_close(results, plain) for results in got):
            continue  # it has no effect, or none is drawn
        if of_keys and all(map(partial(_follows_where_shown, bench), got, masks)):
            return "its mask is followed, but for what padding gives, which is not judged"
        shown = [bench.compute(keep | own_token).output for keep in masks]
        if all(map(is_close, got, shown)):
            return "its mask is followed, but that a token sees itself is not judged"
    return ""


def _follows_where_shown(bench: Bench, got: Sequence[Tensor], keep: Tensor) -> bool:
    """Whether a mask of keys is followed by the tokens that it shows."""
    right, shown = bench.compute(keep).output, keep[:, 0].mT
    if not got or got[0].shape != right.shape:
        return False
    return is_close([got[0].where(shown, 0)], right.where(shown, 0))


def _blame_errors(bench: Bench, name: str, errors: Mapping[str, CallForm]) -> Settled:
    """Claim a mask if the class is to blame that every call with one raises: a check quotes it."""
    own = (form for error, form in errors.items() if UNDEFINED.match(error))
    form = next(own, next(iter(errors.values())))
    if any(map(UNDEFINED.match, errors)) or (len(errors) == 1 and all(map(FAULT.match, errors))):
        return claim_mask(bench, form)
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
            for convention in iter_conventions(mask.argument or "", own):
                if follows(bench, replace(own, mask=convention)):
                    return replace(own, mask=convention)
    return None


def _list_errors(bench: Bench, form: CallForm, name: str) -> dict[str, CallForm]:
    """Return what the class raises with any form of mask; nothing if it takes one of them."""
    errors: dict[str, CallForm] = {}
    for convention in iter_conventions(name, form):
        own = replace(form, mask=convention)
        for keep in draw_masks(bench, convention):
            error = bench.find_error(own, bench.x, keep)
            if not error:
                return {}
            errors.setdefault(error, own)
    return errors


def add_mask(bench: Bench, name: str) -> CallForm:
    """Return the call form with a mask, by name if what stands before it is not an input."""
    own = bench.contract.call_form
    whole = next(f.inputs for f in iter_forms_of(bench.signature) if "mask" in f.inputs)
    tokens = [role for role in own.inputs if role != "mask"]
    if whole.index("mask") > len(tokens):
        return replace(own, inputs=(*tokens, "mask"), mask=replace(own.mask, argument=name))
    tokens.insert(whole.index("mask"), "mask")
    return replace(own, inputs=tuple(tokens))


def _claim_bias(bench: Bench, form: CallForm, name: str) -> Settled:
    """Claim a mask that is followed; if it is added, and named a bias, it may hold any numbers."""
    settled = _claim_as_stated(bench, form, name)
    added = settled.contract.call_form.mask.polarity is Polarity.ADDED
    if not added or not BIAS.fullmatch(name.lower()):
        return settled
    numbers = draw_normal(bench.case, "mask", *next(draw_masks(bench, form.mask)).shape)
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
        settled = claim_mask(bench, replace(form, mask=replace(mask, dtype="int64")))
        return settled.add(grounds.NUMBERS.say(stated[1]))
    if stated is None or not entries or stated[0] is mask.polarity:
        return claim_mask(bench, form)
    ones = stated[0] is Polarity.KEEP and ONES.search(stated[1]) and not ADDED.search(stated[1])
    if added and not (ones or BOOLEAN.search(stated[1])):
        return claim_mask(bench, form)  # numbers may be said to show and to hide
    dtype = mask.dtype if not added else "int64" if ones else "bool"
    said = replace(mask, polarity=stated[0], dtype=dtype, fill=-math.inf)
    settled = claim_mask(bench, replace(form, mask=said))
    return settled.add(grounds.POLARITY.say(stated[1]))


def _misreads_integers(bench: Bench, form: CallForm, stated: tuple[Polarity, str]) -> bool:
    """Whether a class says that its mask has ones and zeros, but follows booleans alone.

    It may refuse integers; what takes them, and does something else, is wrong.
    """
    polarity, words = stated
    mask = form.mask
    if mask.dtype != "bool" or mask.polarity is not polarity or BOOLEAN.search(words):
        return False
    keep = next(draw_masks(bench, mask))
    integers = replace(form, mask=replace(mask, dtype="int64"))
    return DIGITS.search(words) is not None and bool(bench.call(integers, bench.x, keep))
