"""Find attention whose scores are multiplied by a learned number, as cosine attention.

The equation knows no such number. So it is set to one with which a class has the usual scores: the
root of a head's width if queries and keys have length one, and otherwise one over it, or 1.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.binding.bench import is_right_at
from headcheck.properties.binding.hypotheses import OTHER
from headcheck.properties.binding.matching import RELATIVE
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.binding.search import SCALES, BindingSearch, Match
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.call_form import LearnedScale, ScaleKind
from headcheck.properties.violations.violation import SubmissionFailed

OFF = {ScaleKind.EXPONENT: -1e4, ScaleKind.FACTOR: 0.0, ScaleKind.DIVISOR: 1e9}
"""numbers that make all scores zero"""
OF_LENGTH_ONE, OF_ANY_LENGTH = (0.5,), (-0.5, 0.0)
"""powers of a head's width to which scores are scaled"""


def find_learned_scales(search: BindingSearch) -> list[LearnedScale]:
    """Return the ways in which one parameter of a class scales its scores."""
    for probe in search.probes:
        heads = probe.sizes.case.heads
        for path, info in probe.built.tensors.items():
            if info.kind == "parameter" and {*info.shape} <= {1, heads}:
                try:
                    found = list(_iter_scales(probe, path))
                except SubmissionFailed:
                    continue
                if found:
                    return found
    return []


def is_explained(search: BindingSearch, match: Match) -> bool:
    """Whether a class is exact, or has a mistake that is not one of its scale."""
    if match.mistakes:
        return not {mistake.name for mistake in match.mistakes} & SCALES
    form = replace(match.contract.call_form, places=(match.place,))
    contract = replace(match.contract, call_form=form)
    return not match.inexact and is_right_at(search.subject, contract, contract.fit(OTHER))


def _iter_scales(probe: CallProbe, path: str) -> Iterator[LearnedScale]:
    """Yield how a parameter scales the scores, if it does.

    Without scores all weights are equal, and the output is an affine function of the tokens.
    """
    stored = probe.seen.stored
    for kind, number in OFF.items():
        off = {**stored, path: torch.full_like(stored[path], number)}
        if _is_affine(probe, off) and not _is_affine(probe, stored):
            powers = OF_LENGTH_ONE if _has_unit_length(probe) else OF_ANY_LENGTH
            yield from (LearnedScale(path, kind, power) for power in powers)
            return


def _is_affine(probe: CallProbe, weights: Mapping[str, Tensor]) -> bool:
    """Whether the output for a sum of tokens is the sum of the outputs, and not always the same."""
    x = probe.seen.x
    one, other, both, neither = (
        _call(probe, weights, t) for t in (x, x.flip(-1), x + x.flip(-1), torch.zeros_like(x))
    )
    return _is_close(one + other, both + neither) and not _is_close(one, neither)


def _has_unit_length(probe: CallProbe) -> bool:
    """Whether tokens twice as long have the same scores: without biases, values alone grow."""
    plain = {p: t * 0 if t.dim() == 1 and len(t) > 1 else t for p, t in probe.seen.stored.items()}
    x = probe.seen.x
    return _is_close(2 * _call(probe, plain, x), _call(probe, plain, 2 * x))


def _call(probe: CallProbe, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Return the output of a call: the first result with the axes of tokens."""
    probe.module.write(weights)
    result = probe.module.forward([x.clone() if probe.batched else x[0].clone()], CallOptions())
    found = (t for t in result.outputs if t.dim() == x.dim() - (not probe.batched))
    return next(found, torch.zeros(())).double()


def _is_close(one: Tensor, other: Tensor) -> bool:
    return float((one - other).abs().max()) <= RELATIVE * float(other.abs().max())


def set_scale(search: BindingSearch, scale: LearnedScale, steps: int) -> BindingSearch:
    """Return the search for a class whose learned number is set."""
    own = replace(search.signature, scale=scale)
    return BindingSearch(search.subject, own, steps=steps, paths=search.paths)
