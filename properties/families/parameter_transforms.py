"""Replace a few parameters of a case: most metamorphic properties do this."""

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import NormOver
from headcheck.properties.contracts.variant import get_variant
from headcheck.properties.harness.case_context import CaseContext
from headcheck.reference import Parameters, ask_gate, leave_heads, linear

ASKING = ("W_q", "b_q", "shift_q", "W_qr")
"""the parameters that determine queries: if all of them are zero, queries are zero"""
GAINS = {"W_q": "gain_q", "W_k": "gain_k"}
"""the gains of the norms of what layers return"""


def replace_parameters(context: CaseContext, **changes: Tensor) -> Parameters:
    """Return the case's parameters with some of them replaced; absent ones stay absent."""
    present = dict(context.parameters.items())
    return Parameters(**{n: changes.get(n, t) for n, t in present.items()})


def zero_parameters(context: CaseContext, *names: str) -> dict[str, Tensor]:
    """Return zeros in place of these parameters, where they exist."""
    return {n: torch.zeros_like(t) for n, t in context.parameters.items() if n in names}


def list_own(context: CaseContext, *names: str) -> list[str]:
    """Return parameters of which a head has rows that do not count for other heads.

    If a norm is over all heads, every head's rows of W_q count for the size of all queries. Then
    the norm's gain replaces W_q, since each head has a gain of its own; so for W_k.
    """
    whole = context.contract.norm_over is NormOver.PROJECTION
    own = (GAINS.get(name, name) if whole else name for name in names)
    return [name for name in own if getattr(context.parameters, name) is not None]


def list_reading_layers(context: CaseContext) -> set[str]:
    """Return the names of the layers whose input is tokens; with latents, W_k and W_v are not."""
    latent = context.parameters.W_down is not None
    read = {"W_down", "W_qr", "W_kr"} if latent else {"W_k", "W_v"}
    return read | {"W_q", "W_gate"}


def pass_first_number_on(context: CaseContext) -> dict[str, Tensor]:
    """Return a layer that copies a token's first number to its latent; none without latents."""
    if context.parameters.W_down is None:
        return {}
    down = context.parameters.W_down.clone()
    down[0] = torch.eye(context.case.d_in, dtype=torch.float64)[0]
    return {"W_down": down}


def give_equal_values(context: CaseContext) -> tuple[Tensor, Parameters]:
    """Return tokens and parameters for which all values of a head are the same."""
    x = context.x.clone()
    x[..., 0] = 1
    column = torch.zeros_like(context.parameters.W_v)
    column[:, 0] = context.parameters.W_v[:, 0]
    return x, replace_parameters(context, W_v=column, **pass_first_number_on(context))


def make_identity_projection(context: CaseContext) -> dict[str, Tensor]:
    """Return an output projection that leaves the merged heads unchanged."""
    identity = torch.eye(context.case.d_out, dtype=torch.float64)
    return {"W_o": identity, **zero_parameters(context, "b_o")}


def project_output(
    context: CaseContext, parameters: Parameters, averages: Tensor, x: Tensor
) -> Tensor:
    """Apply the norm of heads, these tokens' gates and the output projection to heads' averages."""
    variant = get_variant(context.contract, context.case)
    merged = leave_heads(averages, parameters, variant)
    if parameters.W_gate is not None:
        merged = merged * torch.sigmoid(ask_gate(x, parameters))
    return merged if parameters.W_o is None else linear(merged, parameters.W_o, parameters.b_o)


def rotate_within_heads(tensor: Tensor, head_dim: int) -> Tensor:
    """Reorder the rows of each head, and negate every other one.

    This rotation (or reflection) causes no rounding, so its effect is exact in every dtype.
    """
    rows = tensor.reshape(-1, head_dim, *tensor.shape[1:]).roll(1, dims=1)
    signs = 1 - 2 * (torch.arange(rows.shape[1]) % 2)
    return (rows * signs.view(1, -1, *(1,) * (rows.dim() - 2))).flatten(0, 1)


def permute_heads(tensor: Tensor, groups: int) -> Tensor:
    """Move the rows of each head, or of each group that shares keys, to the next head or group."""
    return tensor.reshape(groups, -1, *tensor.shape[1:]).roll(1, dims=0).flatten(0, 1)
