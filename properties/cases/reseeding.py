"""Reseed a case set: the seed of a run changes only its random numbers.

Sizes and options stay the same, so that a fault that shows only at certain sizes shows under every
seed, and a student's check has the same verdict as a graded run. The numbers can also decide a
verdict: if one exponential overflows, an answer without a guard fails many properties together. So
seeds are drawn until the scores exceed the same limits as before, and the mask has the same kinds
of rows.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import Tensor

from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.cases.case_set import PUBLIC_SEED
from headcheck.properties.cases.case_tensors import make_parameters, make_tokens
from headcheck.properties.cases.fitting_mask import make_fitting_mask
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.contracts.variant import get_variant
from headcheck.properties.terms.case import Case
from headcheck.reference import enter_block, multi_head_attention

EXP_LIMITS = (-709.0, -88.0, 88.0, 709.0)
"""limits of scores beyond which an exponential is zero or infinite, in float64 and in float32"""
MAX_TRIES = 200


def reseed_cases(
    contract: Contract, cases: Sequence[Case], seed: int, owner: str
) -> tuple[Case, ...]:
    """Return the cases with seeds derived from a run's seed; the public seed leaves them unchanged.

    Students see the seed of a case, so it is a hash: neither the run's seed nor the seed of another
    case, of this owner or of another one, can be computed from it.
    """
    if seed == PUBLIC_SEED:
        return tuple(cases)
    return tuple(
        _find_alike(contract, case, _iter_reseeded(case, f"{seed} {owner} {index}"))
        for index, case in enumerate(cases)
    )


def _iter_reseeded(case: Case, key: str) -> Iterator[Case]:
    for attempt in range(MAX_TRIES):
        # torch's generator on the CPU uses no more than 32 bits.
        digest = hashlib.blake2b(f"{key} {attempt}".encode(), digest_size=4).digest()
        yield replace(case, seed=int.from_bytes(digest) or 1)


def _find_alike(contract: Contract, case: Case, candidates: Iterator[Case]) -> Case:
    """Return the first candidate whose numbers are of the case's kind, or the last candidate."""
    kind = _classify_numbers(contract, case)
    candidate = case
    for candidate in candidates:
        if _classify_numbers(contract, candidate) == kind:
            break
    return candidate


def _classify_numbers(contract: Contract, case: Case) -> tuple[object, ...]:
    """Return the facts about the numbers of a case on which a verdict may depend."""
    mask = make_fitting_mask(contract, case)
    rows = () if mask is None else _classify_mask(mask, case.tokens)
    if not contract.has(Capability.ATTENTION):
        return rows
    scores = _compute_scores(contract, case)
    low, high = float(scores.min()), float(scores.max())
    return *rows, *(low < edge for edge in EXP_LIMITS), *(high < edge for edge in EXP_LIMITS)


def _classify_mask(mask: Tensor, tokens: int) -> tuple[bool, ...]:
    """Return whether some token sees not all, not itself, only itself, or only later tokens."""
    sees = (mask != 0).expand(*mask.shape[:-2], tokens, tokens)
    itself = sees.diagonal(dim1=-2, dim2=-1)
    only_itself = itself & (sees.sum(-1) == 1)
    kinds = ~sees, ~itself, only_itself, ~sees.tril().any(-1)
    return tuple(bool(kind.any()) for kind in kinds)


def _compute_scores(contract: Contract, case: Case) -> Tensor:
    """Return the scaled scores of all pairs of tokens, including hidden ones."""
    x, p = make_tokens(case, contract), make_parameters(case, contract)
    scale, variant = get_scale(contract, case), get_variant(contract, case)
    x = enter_block(x, p, variant)
    return multi_head_attention(x, p, case.heads, None, scale, variant=variant).scores
