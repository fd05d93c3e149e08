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
from properties.cases.case_set import PUBLIC
from properties.cases.case_tensors import mask_of, parameters_of, tokens_of
from properties.contract import Contract, Trait
from properties.oracle import scale_of

RANGES = (-709.0, -88.0, 88.0, 709.0)
"""Beyond these an exponential is nothing, or infinite: in float64 and in float32."""
TRIES = 200


def renumbered(
    contract: Contract, cases: Sequence[Case], seed: int, owner: str
) -> tuple[Case, ...]:
    """These cases with numbers drawn from a run's seed; with their own under the public seed.

    A student is shown the seed of a case, so it is a hash of the run's: neither the run's seed nor
    that of another case, of this owner or of another one, can be computed from it.
    """
    if seed == PUBLIC:
        return tuple(cases)
    return tuple(
        _like(contract, case, _drawn(case, f"{seed} {owner} {place}"))
        for place, case in enumerate(cases)
    )


def _drawn(case: Case, about: str) -> Iterator[Case]:
    for attempt in range(TRIES):
        # torch's generator on the CPU takes no more than 32 bits.
        digest = hashlib.blake2b(f"{about} {attempt}".encode(), digest_size=4).digest()
        yield replace(case, seed=int.from_bytes(digest) or 1)


def _like(contract: Contract, case: Case, drawn: Iterator[Case]) -> Case:
    """The first that is like a case; the last if none is."""
    wanted = _kind(contract, case)
    found = case
    for found in drawn:
        if _kind(contract, found) == wanted:
            break
    return found


def _kind(contract: Contract, case: Case) -> tuple[object, ...]:
    """What the numbers of a case decide, and a verdict may depend on."""
    mask = mask_of(case)
    plights = () if mask is None else _plights(mask, case.tokens)
    if not contract.has(Trait.ATTENTION):
        return plights
    scores = _scores(contract, case)
    low, high = float(scores.min()), float(scores.max())
    return *plights, *(low < edge for edge in RANGES), *(high < edge for edge in RANGES)


def _plights(mask: Tensor, tokens: int) -> tuple[bool, ...]:
    """Whether some token sees not all, not itself, itself alone, or later ones alone."""
    sees = (mask != 0).expand(*mask.shape[:-2], tokens, tokens)
    itself = sees.diagonal(dim1=-2, dim2=-1)
    alone = itself & (sees.sum(-1) == 1)
    some = ~sees, ~itself, alone, ~sees.tril().any(-1)
    return tuple(bool(each.any()) for each in some)


def _scores(contract: Contract, case: Case) -> Tensor:
    """The scaled scores of all pairs of tokens, hidden ones among them."""
    parameters = parameters_of(case, contract)

    def heads(weight: Tensor, bias: Tensor | None) -> Tensor:
        projected: Tensor = torch.nn.functional.linear(tokens, weight, bias)
        split: Tensor = projected.unflatten(-1, (case.heads, case.head_dim))
        return split.transpose(-2, -3)

    tokens = tokens_of(case, contract)
    query = heads(parameters.W_q, parameters.b_q)
    key = heads(parameters.W_k, parameters.b_k)
    scores: Tensor = query @ key.mT * scale_of(contract, case)
    return scores
