"""The exact answer to a case, and its tolerance."""

import functools
import hashlib
import math
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from headcheck.properties.bounds.attention import (
    PRECISIONS,
    K,
    Precision,
    RoundedAttention,
    bound_least,
    bound_logsumexp,
    compute_bounds,
)
from headcheck.properties.bounds.block import bound_block
from headcheck.properties.bounds.layers import bound_linear_error
from headcheck.properties.bounds.tolerance import Limits, Tolerance
from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.contracts.variant import get_variant, list_read
from headcheck.properties.sized_cache import SizedCache
from headcheck.properties.terms.case import Case
from headcheck.reference import (
    MultiHeadResult,
    Parameters,
    Variant,
    linear,
    multi_head_attention,
    transformer_block,
)

MAX_CACHED_SCORES = 1 << 22
"""the most scores in all cached answers together, which take a few hundred MiB at most"""


@dataclass(frozen=True, eq=False)
class Expected:
    """The outputs in order, each with its tolerance, and every intermediate result.

    All submissions of a process share this object, so it must not be modified.
    """

    outputs: tuple[Tensor, ...]
    tolerances: tuple[Tolerance, ...]
    exact: MultiHeadResult


_CACHE = SizedCache[Expected](MAX_CACHED_SCORES)
LARGE = 1 << 14
"""the fewest numbers of a tensor whose hash is kept"""
_DIGESTS: MutableMapping[Tensor, tuple[int, bytes]] = WeakIdKeyDictionary()
"""the hashes of large tensors, each with the version of the tensor that was hashed"""


_PARAMETER_DIGESTS = WeakKeyDictionary[Parameters, bytes]()


def get_scale(contract: Contract, case: Case) -> float:
    """Return the factor of the scores."""
    if contract.has(Capability.FEATURES):
        return 1.0  # what all products are multiplied by cancels
    return 1 / math.sqrt(get_width(contract, case)) if contract.scale is None else contract.scale


def get_width(contract: Contract, case: Case) -> int:
    """Return how many numbers of a query are compared with a key: half of a head with two maps.

    With latents these are a head's own coordinates and the rotating ones beside them.
    """
    return case.head_dim // (2 if contract.has(Capability.DIFFERENTIAL) else 1) + case.rope_dim


def compute_expected(
    contract: Contract,
    case: Case,
    x: Tensor,
    parameters: Parameters,
    may_attend: Tensor | None,
    others: Sequence[Tensor] = (),
    added: Tensor | None = None,
) -> Expected:
    """Return the oracle's answer in float64; cached, since all submissions get the same queries.

    `others` are the tokens of keys and values if these differ from x, or the context of which they
    are a part: one tensor for both, or two. `added` is added to the scores.
    """
    others = list_read(contract, x, others)
    family = (
        contract.returns,
        contract.has(Capability.ATTENTION),
        get_scale(contract, case),
        get_variant(contract, case),
    )
    content = hash_tensors(x, may_attend, added, *others), hash_parameters(parameters)
    key = (*family, case.heads, case.dtype, content)
    return _CACHE.get_or_make(
        key,
        lambda: _compute_expected(contract, case, x, parameters, may_attend, others, added),
        lambda expected: expected.exact.scores.numel(),
    )


def hash_parameters(parameters: Parameters) -> bytes:
    """Return a hash of the names and numbers of parameters, which nobody modifies."""
    if (known := _PARAMETER_DIGESTS.get(parameters)) is None:
        names, tensors = zip(*parameters.items(), strict=True)
        known = _PARAMETER_DIGESTS[parameters] = repr(names).encode() + hash_tensors(*tensors)
    return known


def hash_tensors(*tensors: Tensor | None) -> bytes:
    """Return a hash of the shapes and numbers of tensors."""
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(b"-" if tensor is None else repr(tuple(tensor.shape)).encode())
        if tensor is not None:
            digest.update(_list_bytes(tensor) if tensor.numel() < LARGE else _hash_once(tensor))
    return digest.digest()


def _hash_once(tensor: Tensor) -> bytes:
    """Return the hash of a large tensor, which is part of many queries."""
    known = _DIGESTS.get(tensor)
    if known is None or known[0] != tensor._version:
        digest = hashlib.blake2b(_list_bytes(tensor), digest_size=16).digest()
        known = _DIGESTS[tensor] = tensor._version, digest
    return known[1]


def _list_bytes(tensor: Tensor) -> memoryview:
    found: memoryview = tensor.contiguous().numpy().reshape(-1).data
    return found


def _compute_expected(
    contract: Contract,
    case: Case,
    x: Tensor,
    parameters: Parameters,
    may_attend: Tensor | None,
    others: Sequence[Tensor],
    added: Tensor | None,
) -> Expected:
    scale, variant = get_scale(contract, case), get_variant(contract, case)
    if variant.block is not None:
        given = case, x, parameters, may_attend
        return _compute_expected_of_block(*given, scale, variant)
    keys_from, values_from = (others[0], others[-1]) if others else (x, x)
    exact = multi_head_attention(
        x, parameters, case.heads, may_attend, scale,
        keys_from=keys_from, values_from=values_from, variant=variant, added=added,
    )  # fmt: skip
    if not contract.has(Capability.ATTENTION):
        return _compute_expected_linear(exact, case, x, parameters)

    output, weights = _postpone_bounds(
        [
            RoundedAttention(x, parameters, exact, scale, precision, may_attend, others, variant)
            for precision in dict.fromkeys(get_precisions(case.dtype))
        ]
    )
    match contract.returns:
        case Returns.OUTPUT:
            return Expected((exact.output,), (output,), exact)
        case Returns.OUTPUT_AND_WEIGHTS:
            return Expected((exact.output, exact.weights), (output, weights), exact)
        case Returns.OUTPUT_AND_LOGSUMEXP:
            limits = (
                bound_logsumexp(exact, scale, each, variant) for each in get_precisions(case.dtype)
            )
            return Expected((exact.output, exact.logsumexp), (output, Tolerance(*limits)), exact)
        case Returns.WEIGHTS_TWICE:
            # Queries and keys are the input here, and there is one head.
            w, a = exact.weights[:, 0], weights[:, 0]
            return Expected((w, w), (a, a), exact)


def _postpone_bounds(attentions: list[RoundedAttention]) -> tuple[Tolerance, Tolerance]:
    """Return the tolerances of the output and of the weights; both are computed together."""

    @functools.cache
    def compute_limits() -> tuple[Limits, Limits]:
        bounds = zip(*map(compute_bounds, attentions), strict=True)
        # The limits of both precisions, which are equal except in float64.
        output, weights = ((limits[0], limits[-1]) for limits in bounds)
        return output, weights

    output, weights = bound_least(attentions[0])
    return (
        Tolerance.postpone(output, lambda: compute_limits()[0]),
        Tolerance.postpone(weights, lambda: compute_limits()[1]),
    )


def _compute_expected_of_block(
    case: Case,
    x: Tensor,
    parameters: Parameters,
    may_attend: Tensor | None,
    scale: float,
    variant: Variant,
) -> Expected:
    """Return the answer of a block; the intermediate results are those of its attention."""
    block = transformer_block(x, parameters, case.heads, may_attend, scale, variant)
    given = x, parameters, block.attention, scale
    limits = (
        bound_block(RoundedAttention(*given, precision, may_attend, (), variant), block)
        for precision in get_precisions(case.dtype)
    )
    return Expected((block.output,), (Tolerance(*limits),), block.attention)


def _compute_expected_linear(
    exact: MultiHeadResult, case: Case, x: Tensor, parameters: Parameters
) -> Expected:
    output = linear(x, parameters.W_v, parameters.b_v)
    limits = (
        K * bound_linear_error(x, parameters.W_v, output, precision)
        for precision in get_precisions(case.dtype)
    )
    return Expected((output,), (Tolerance(*limits),), exact)


def get_precisions(dtype: str) -> tuple[Precision, Precision]:
    """Return the precision of a dtype, and the precision of computation in float32 instead."""
    return PRECISIONS[dtype], PRECISIONS["float32" if dtype == "float64" else dtype]
