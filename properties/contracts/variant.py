"""Derive the mask and the variant of the equation from a contract and a case."""

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import (
    LINEAR,
    ROTARY,
    Capability,
    Contract,
    FeatureMap,
    NormOver,
    Positions,
)
from headcheck.properties.terms.case import Case
from headcheck.reference import (
    BlockSteps,
    RelativeBuckets,
    RotaryScaling,
    Variant,
    causal_lower_right_mask,
    sliding_window_mask,
    to_bool_mask,
)


def find_visible(
    contract: Contract,
    case: Case,
    tokens: int,
    mask: Tensor | None = None,
    device: torch.device | None = None,
    keys: int | None = None,
) -> Tensor | None:
    """Return which token may attend to which, by the causal mask, the window and the given mask.

    If there are more keys than tokens, `keys` is their number, and the tokens are the last of them.
    """
    given = None if mask is None else to_bool_mask(mask)
    if contract.has(Capability.WINDOW):
        both_sides = not hides_later_tokens(contract, case)
        longest = tokens if keys is None else keys
        own = sliding_window_mask(
            tokens, case.window, both_sides=both_sides, keys=longest, device=device
        )
    elif hides_later_tokens(contract, case):
        own = causal_lower_right_mask(tokens, keys or tokens, device=device)
    else:
        return given
    return own if given is None else own & given


def hides_later_tokens(contract: Contract, case: Case) -> bool:
    """Return whether later tokens are hidden, because of the contract or the case."""
    return contract.has(Capability.CAUSAL) or case.causal


def get_variant(contract: Contract, case: Case) -> Variant:
    """Return the steps of the equation in this case in addition to the plain ones."""
    rounding = torch.finfo(getattr(torch, case.dtype)).eps
    return Variant(
        rotary=contract.positions in ROTARY,
        base=contract.rotary_base,
        share=contract.rotary_share,
        scaling=_get_scaling(contract),
        beside=case.rope_dim,
        neighbours=contract.positions is Positions.ROTARY_NEIGHBOURS,
        alibi=contract.positions in LINEAR,
        two_sequences=contract.positions is Positions.ALIBI_TWO_SEQUENCES,
        relative=_get_buckets(contract, case),
        softcap=case.softcap,
        features=contract.feature_map is FeatureMap.ELU,
        norm=contract.norm.value,
        epsilon=contract.norm_epsilon or rounding if contract.norm else 0.0,
        norm_over=_get_normed(contract),
        gain_from=contract.norm_gain_from,
        block=get_block_steps(contract),
    )


def _get_normed(contract: Contract) -> str:
    """Return over what a norm of queries and keys averages: of two maps, each has its own norm."""
    halves = contract.norm_over is NormOver.HEAD and contract.stores("lambdas")
    return "half" if halves else contract.norm_over.value


def _get_buckets(contract: Contract, case: Case) -> RelativeBuckets | None:
    if contract.positions is not Positions.RELATIVE:
        return None
    both_sides = not hides_later_tokens(contract, case)
    return RelativeBuckets(contract.relative_buckets, contract.relative_farthest, both_sides)


def _get_scaling(contract: Contract) -> RotaryScaling | None:
    """Return the scaling of rotary frequencies, with the usual numbers that a contract omits."""
    own = contract.rotary_scaling
    if own is None:
        return None
    if own.original_length is None:
        return RotaryScaling(own.kind.value, own.factor)
    (_, slow), (_, fast) = own.limits
    given = own.kind.value, own.factor, own.original_length, fast, slow, own.table_factor
    return RotaryScaling(*given, truncate=own.truncate is not False)


def get_block_steps(contract: Contract) -> BlockSteps | None:
    """Return the steps of a block around its attention; None without a block."""
    if not contract.has(Capability.BLOCK):
        return None
    norm, activation = contract.token_norm.value, contract.activation.value
    return BlockSteps(norm, contract.token_norm_epsilon, activation)
