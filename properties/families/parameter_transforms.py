"""Replace a few parameters of a case: most metamorphic properties do this."""

import torch
from torch import Tensor

from headcheck.properties.harness.case_context import CaseContext
from headcheck.reference import Parameters, ask_gate, linear

ASKING = ("W_q", "b_q", "shift_q", "W_qr")
"""the parameters that determine queries: if all of them are zero, queries are zero"""


def replace_parameters(context: CaseContext, **changes: Tensor) -> Parameters:
    """Return the case's parameters with some of them replaced; absent ones stay absent."""
    present = dict(context.parameters.items())
    return Parameters(**{n: changes.get(n, t) for n, t in present.items()})


def zero_parameters(context: CaseContext, *names: str) -> dict[str, Tensor]:
    """Return zeros in place of these parameters, where they exist."""
    return {n: torch.zeros_like(t) for n, t in context.parameters.items() if n in names}


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


def make_identity_projection(context: CaseContext) -> dict[str, Tensor]:
    """Return an output projection that leaves the merged heads unchanged."""
    identity = torch.eye(context.case.d_out, dtype=torch.float64)
    return {"W_o": identity, **zero_parameters(context, "b_o")}


def project_output(parameters: Parameters, merged: Tensor, x: Tensor) -> Tensor:
    """Apply these tokens' gates and the output projection, if any, to merged heads."""
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
