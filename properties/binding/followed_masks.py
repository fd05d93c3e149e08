"""The masks that a class may be called with, and whether it follows them."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.binding.bench import Bench, Settled, is_close
from headcheck.properties.binding.calls import LENGTHS, MASK_CONVENTIONS, list_mask_sources
from headcheck.properties.cases.case_tensors import draw_normal
from headcheck.properties.cases.fitting_mask import restrict_mask, show_own_keys
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.contracts.implied_capabilities import restate_steps
from headcheck.properties.terms.call_form import CallForm, MaskConvention, MaskSource

C = Capability


def claim_mask(bench: Bench, form: CallForm) -> Settled:
    """Return what is settled with the claim that calls in this form follow their masks."""
    contract = restate_steps(replace(bench.contract, call_form=form, call=form.inputs))
    kind = C.PADDING if form.mask.keys_only else C.MASK
    return replace(bench.settled, contract=contract).claim(kind, C.TAKES_MASK)


def iter_conventions(name: str, form: CallForm) -> Iterator[MaskConvention]:
    """Yield what the mask of a form may be, passed as the form says."""
    whole = itertools.product((None, 4, 3, 2), MASK_CONVENTIONS, (False,))
    of_keys = itertools.product((2, 4, 3), MASK_CONVENTIONS, (True,))
    yield from (replace(each, argument=form.mask.argument) for each in list_mask_sources(name))
    for axes, convention, keys_only in (*whole, *of_keys):
        yield replace(convention, axes=axes, keys_only=keys_only, argument=form.mask.argument)


def draw_masks(bench: Bench, convention: MaskConvention) -> Iterator[Tensor]:
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


def follows(bench: Bench, form: CallForm) -> bool:
    """Whether masks in this form are followed, in every shape."""
    batched = bench.contract.has(C.BATCH)
    few = batched and form.mask.axes != 2 and bench.case.batch < bench.case.tokens
    if few and not follows(crowd(bench), form):
        return False  # a slice for the tokens would cut the batch
    return all(
        is_close(bench.call(form, bench.x, keep), bench.compute(keep).output)
        for keep in iter_typed_masks(bench, form)
    )


def iter_typed_masks(bench: Bench, form: CallForm) -> Iterator[Tensor]:
    """Yield masks of all shapes and dtypes that a form allows."""
    types = (torch.bool, torch.int64, torch.float32) if form.mask.dtype is None else (torch.bool,)
    yield from (keep.to(dtype) for keep in draw_masks(bench, form.mask) for dtype in types)


def crowd(bench: Bench) -> Bench:
    """Return the bench with more sequences than tokens, and an even number, as of two images."""
    return replace(bench, sized=replace(bench.case, batch=bench.case.tokens // 2 * 2 + 2))
