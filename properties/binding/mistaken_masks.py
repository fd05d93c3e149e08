"""Find the form of a mask that a class takes and does not follow, so that a check fails.

It changes nothing, shows what it should hide, has a known mistake, or is followed only almost.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.binding.bench import Bench, is_close
from headcheck.properties.binding.calls import LENGTHS, MASK_CONVENTIONS, list_mask_sources
from headcheck.properties.binding.followed_masks import (
    claim_mask,
    draw_masks,
    follows,
    iter_conventions,
    iter_typed_masks,
)
from headcheck.properties.binding.matching import Observation, find_mistakes
from headcheck.properties.contracts.contract import Capability, Returns
from headcheck.properties.terms.call_form import (
    CallForm,
    MaskConvention,
    MaskSource,
    Polarity,
    TokenAxes,
)

C = Capability
ALMOST = 0.3
"""a mask is of a kind if it does most of what a mask of this kind does"""


def find_unfollowed(bench: Bench, form: CallForm, name: str) -> CallForm | None:
    """Return the form in which a class takes a mask that it does not follow.

    With an option that hides later tokens a class may ignore padding, which is later than others.
    """
    causal, asked = bench.contract.has(C.CAUSAL), bench.signature.causal is not None
    idle = _find_idle(bench, form, name) if causal else None
    if idle is not None:
        return None if asked else idle
    return (
        (_find_replacing(bench, form) if causal else None)
        or _find_mistaken_mask(bench, form, name)
        or _find_nearest_mask(bench, form)
        or _find_misread_lengths(bench, form, name)
    )


def _find_idle(bench: Bench, form: CallForm, name: str) -> CallForm | None:
    """Return a form in which the class takes a mask if no form of mask changes anything."""
    without = bench.call(bench.contract.call_form, bench.x)
    taken: list[CallForm] = []
    for convention in iter_conventions(name, form):
        own = replace(form, mask=replace(convention, required=form.mask.required))
        answers = [bench.call(own, bench.x, keep) for keep in iter_typed_masks(bench, own)]
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
    of_keys = (c for c in iter_conventions("", form) if c.keys_only and c.axes in (2, 4))
    forms = (replace(form, mask=replace(c, required=form.mask.required)) for c in of_keys)
    return next((own for own in forms if _shows_too_much(shown, own)), None)


def _shows_too_much(bench: Bench, form: CallForm) -> bool:
    """Whether a query sees what a mask of keys shows, or what this or a causal mask shows."""
    if form.mask.axes == 2 and follows(bench, form):
        return True
    tokens = bench.case.tokens
    earlier = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    return all(
        is_close(bench.call(form, bench.x, keep), bench.compute((keep != 0) | earlier).output)
        for keep in iter_typed_masks(bench, form)
    )


def _find_mistaken_mask(bench: Bench, form: CallForm, name: str) -> CallForm | None:
    """Return a form in which a mask has no effect, or has the effect of a known mistake.

    A whole mask may stand for the causal one, so where this is known only masks of keys are tried.
    """
    usual = () if bench.contract.has(C.CAUSAL) else MASK_CONVENTIONS[:4]
    of_keys = (replace(each, axes=2, keys_only=True) for each in MASK_CONVENTIONS[1:3])
    cut = (replace(each, axes=axes) for axes in (3, 4, 2) for each in usual)
    ignored, changing = list[CallForm](), False
    for convention in (*list_mask_sources(name), *usual, *of_keys, *cut):
        taken = {"argument": form.mask.argument, "required": form.mask.required}
        own = replace(form, mask=replace(convention, **taken))
        answers = [bench.call(own, bench.x, each) for each in iter_typed_masks(bench, own)]
        if not all(answers):
            continue
        keep, results = next(draw_masks(bench, convention)), answers[0]
        alone = replace(bench, sized=replace(bench.case, batch=1))
        idle = is_close(results, bench.compute().output)
        beside = own.mask.argument is not None and own.context_argument is None
        if idle and beside and not form.mask.required:
            continue  # a mask beside another one may be of something else that is not given
        if _is_broken_by(results, keep, own.mask):
            return own
        if idle:
            ignored.append(own)
            continue
        changing = True
        if follows(alone, own):
            return own
        stored = dict(bench.contract.to_stored(bench.parameters, bench.case))
        seen = Observation(bench.x, stored, results[:1], keep)
        claimed = replace(claim_mask(bench, own).contract, returns=Returns.OUTPUT)
        if next(find_mistakes(claimed, bench.case, seen), None):
            return own
    # A class that heeds masks of another shape need not heed the first that it takes. Where tokens
    # come first, masks may have their axes in this order, too.
    unclear = changing or form.axes is TokenAxes.TOKENS_FIRST
    return ignored[0] if ignored and not unclear else None


def _find_misread_lengths(bench: Bench, form: CallForm, name: str) -> CallForm | None:
    """Return a form with lengths if tokens within them do not attend as these say.

    What padding gives, beyond the lengths, is for each class to choose.
    """
    of_keys = replace(LENGTHS, keys_only=True)
    own = replace(form, mask=replace(of_keys, argument=form.mask.argument))
    if of_keys not in list_mask_sources(name):
        return None
    keep = next(draw_masks(bench, of_keys))
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
        keep = next(draw_masks(bench, convention))
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
