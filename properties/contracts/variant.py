"""Derive the mask and the variant of the equation from a contract and a case."""

import functools
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.parts import PARTS
from headcheck.properties.terms.call_form import list_sizes
from headcheck.properties.terms.case import Case
from headcheck.reference import (
    Variant,
    causal_lower_right_mask,
    rotary_angles,
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


def list_read(contract: Contract, x: Tensor, others: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the tokens of keys and values, given those of queries and of a context.

    A module may append the tokens of queries to the context.
    """
    if not contract.call_form.joins_queries:
        return tuple(others)
    return tuple(torch.cat([other, x], dim=-2) for other in others)


def hides_later_tokens(contract: Contract, case: Case) -> bool:
    """Return whether later tokens are hidden, because of the contract or the case."""
    return contract.has(Capability.CAUSAL) or case.causal


@functools.lru_cache(maxsize=1024)
def get_variant(contract: Contract, case: Case) -> Variant:
    """Return the steps of the equation in this case in addition to the plain ones."""
    own = (part.make_steps(contract, case) for part in PARTS if part.is_in(contract))
    return Variant(**{name: value for steps in own for name, value in steps.items()})


def describe_call(contract: Contract, case: Case) -> Mapping[str, object] | None:
    """Return the call form as data for requests about this case; None for the usual form."""
    rotation, width = describe_rotation(contract, case), case.d_context
    return contract.call_form.to_meta(
        case.heads,
        rotation=rotation,
        context_width=width,
        width=case.d_in,
        sizes=list_sizes(case, is_limited=contract.has(Capability.CONTEXT)),
        output_width=case.d_out,
    )


def describe_rotation(contract: Contract, case: Case) -> dict[str, object]:
    """Return the frequencies and the factor of the tables that calls are given; {} without any.

    A class that is given tables may use them or not, so they exist for every contract.
    """
    if not contract.call_form.given:
        return {}
    variant = get_variant(contract, case)
    like = torch.empty(case.head_dim, dtype=torch.float64)
    width = variant.count_turned(like) // 2 * 2
    angles = rotary_angles(2, width, variant.base, like, variant.scaling)
    factor = 1.0 if variant.scaling is None else variant.scaling.attention_factor
    return {"frequencies": angles[1].tolist(), "factor": factor}
