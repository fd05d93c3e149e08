"""The cases of a bank with other numbers: what a run's own seed changes.

Sizes and options stay as they were, so that a fault which shows on certain sizes shows under every
seed, and a student's check comes to the verdict that a graded run comes to. Numbers alone can
decide a verdict, too: where one exponential overflows, an answer that does not guard against it
loses many claims at once. So numbers are drawn until the scores leave the same ranges as before,
and the mask leaves tokens in the same plights.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from properties.case import Case
from properties.cases.case_set import PUBLIC_SEED
from properties.cases.case_tensors import make_mask, make_parameters, make_tokens
from properties.contract import Capability, Contract
from properties.oracle import get_scale

EXP_LIMITS = (-709.0, -88.0, 88.0, 709.0)
"""Beyond these an exponential is nothing, or infinite: in float64 and in float32."""
MAX_TRIES = 200


def reseed_cases(
    contract: Contract, cases: Sequence[Case], seed: int, owner: str
) -> tuple[Case, ...]:
    """These cases with numbers drawn from a run's seed; with their own under the public seed.

    A student is shown the seed of a case, so it is a hash of the run's: neither the run's seed nor
    that of another case, of this owner or of another one, can be computed from it.
    """
    if seed == PUBLIC_SEED:
        return tuple(cases)
    return tuple(
        _find_alike(contract, case, _iter_reseeded(case, f"{seed} {owner} {place}"))
        for place, case in enumerate(cases)
    )


def _iter_reseeded(case: Case, about: str) -> Iterator[Case]:
    for attempt in range(MAX_TRIES):
        # torch's generator on the CPU takes no more than 32 bits.
        digest = hashlib.blake2b(f"{about} {attempt}".encode(), digest_size=4).digest()
        yield replace(case, seed=int.from_bytes(digest) or 1)


def _find_alike(contract: Contract, case: Case, drawn: Iterator[Case]) -> Case:
    """The first that is like a case; the last if none is."""
    wanted = _classify_numbers(contract, case)
    found = case
    for found in drawn:
        if _classify_numbers(contract, found) == wanted:
            break
    return found


def _classify_numbers(contract: Contract, case: Case) -> tuple[object, ...]:
    """What the numbers of a case decide, and a verdict may depend on."""
    mask = make_mask(case)
    plights = () if mask is None else _classify_mask(mask, case.tokens)
    if not contract.has(Capability.ATTENTION):
        return plights
    scores = _compute_scores(contract, case)
    low, high = float(scores.min()), float(scores.max())
    return *plights, *(low < edge for edge in EXP_LIMITS), *(high < edge for edge in EXP_LIMITS)


def _classify_mask(mask: Tensor, tokens: int) -> tuple[bool, ...]:
    """Whether some token sees not all, not itself, itself alone, or later ones alone."""
    sees = (mask != 0).expand(*mask.shape[:-2], tokens, tokens)
    itself = sees.diagonal(dim1=-2, dim2=-1)
    alone = itself & (sees.sum(-1) == 1)
    some = ~sees, ~itself, alone, ~sees.tril().any(-1)
    return tuple(bool(each.any()) for each in some)


def _compute_scores(contract: Contract, case: Case) -> Tensor:
    """The scaled scores of all pairs of tokens, hidden ones among them."""
    parameters = make_parameters(case, contract)

    def heads(weight: Tensor, bias: Tensor | None) -> Tensor:
        projected: Tensor = torch.nn.functional.linear(tokens, weight, bias)
        split: Tensor = projected.unflatten(-1, (case.heads, case.head_dim))
        return split.transpose(-2, -3)

    tokens = make_tokens(case, contract)
    query = heads(parameters.W_q, parameters.b_q)
    key = heads(parameters.W_k, parameters.b_k)
    scores: Tensor = query @ key.mT * get_scale(contract, case)
    return scores
