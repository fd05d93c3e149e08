"""Recover every head's attention weights from the outputs of a module that does not return them.

Split the input's dimensions in two. The *content* part alone feeds queries and keys; the *payload*
part alone feeds the values, and W_o is the identity. Then the weights depend only on the content.
If the payload of token j is one-hot at index j - start, then output coordinate c of head h at query
i IS the weight that query i gives to token start + c. A head of width r shows r columns of the
weight matrix at a time, so tokens / r sequences, in one batch, show the whole matrix.

The recovered weights were off by at most 6e-16 in float64, for 1 to 16 heads, head sizes from 1,
lengths up to 1024, and separate and fused projections.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.cases.case_tensors import draw_normal, round_to_dtype
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.terms.case import Case, MaskForm
from headcheck.reference import Parameters


@dataclass(frozen=True, eq=False)
class RecoveredWeights:
    """The attention weights a module used, those it should have used, and the tolerance."""

    weights: Float[Tensor, "heads tokens tokens"]
    expected: Float[Tensor, "heads tokens tokens"]
    tolerance: Tolerance


def recover_weights(context: CaseContext, shrink: float = 1.0) -> RecoveredWeights:
    """Return the weights of one sequence that the module really used. Needs d_in >= 2.

    All queries are multiplied by `shrink`, and therefore all scores, too.
    """
    case = context.case
    columns = compute_payload_width(case)
    parameters = make_routing_parameters(context)
    parameters = replace(parameters, W_q=round_to_dtype(parameters.W_q * shrink, case))
    sequences = [make_sequence(case, start, columns) for start in range(0, case.tokens, columns)]
    outputs = context.run_stacked(*sequences, parameters=parameters)
    exact = [context.compute_expected(x, parameters, mask=None) for x in sequences]
    return RecoveredWeights(
        _extract_columns(outputs, case, columns),
        _extract_columns([e.outputs[0] for e in exact], case, columns),
        Tolerance(
            _extract_columns([e.tolerances[0].exact for e in exact], case, columns),
            _extract_columns([e.tolerances[0].float32 for e in exact], case, columns),
        ),
    )


def compute_payload_width(case: Case) -> int:
    """Return how many columns of the weights one sequence shows."""
    return max(1, min(case.head_dim, case.d_in // 2, (case.d_latent or case.d_in) // 2))


SILENT = frozenset({"b_q", "b_k", "b_v", "b_o", "W_gate", "b_gate"})
"""parameters that are zero while weights are recovered; then all gates are half open"""


def make_routing_parameters(context: CaseContext) -> Parameters:
    """Return parameters under which queries and keys read the content, and values the payload."""
    case, drawn = context.case, context.parameters
    width = compute_payload_width(case)
    # The content has fewer dimensions than x, so its weights grow to keep the scores' spread.
    keep = _keep_content(case.d_in, width)
    read = case.d_latent or case.d_in
    values = torch.zeros(case.kv_heads, case.head_dim, read, dtype=torch.float64)
    for slot in range(width):
        values[:, slot, read - width + slot] = 1 if drawn.W_gate is None else 2

    routed = {
        **{name: torch.zeros_like(t) for name, t in drawn.items() if name in SILENT},
        "W_q": round_to_dtype(drawn.W_q * keep, case),
        "W_k": round_to_dtype(drawn.W_k * _keep_content(read, width), case),
        "W_v": values.flatten(0, 1),
        **_route_through_latents(context, width),
    }
    if drawn.W_o is not None:
        routed["W_o"] = torch.eye(case.d_out, dtype=torch.float64)
    return Parameters(**dict(drawn.items()) | routed)


def _keep_content(size: int, payload: int) -> Tensor:
    keep = torch.zeros(size, dtype=torch.float64)
    keep[: size - payload] = (size / (size - payload)) ** 0.5
    return keep


def _route_through_latents(context: CaseContext, width: int) -> dict[str, Tensor]:
    """Return layers that keep content and payload apart in latents, too, if there are any."""
    case, p = context.case, context.parameters
    if p.W_down is None:
        return {}
    keep, names = _keep_content(case.d_in, width), ("W_down", "W_qr", "W_kr")
    drawn = {name: t for name, t in p.items() if name in names}
    layers = {name: round_to_dtype(t * keep, case) for name, t in drawn.items()}
    layers["W_down"][-width:] = torch.eye(case.d_in, dtype=torch.float64)[-width:]
    return layers


def make_sequence(case: Case, start: int, columns: int) -> Float[Tensor, "1 tokens d_in"]:
    """Return random content, with one-hot payloads for the tokens from `start` on."""
    content = case.d_in - columns
    x = torch.zeros(1, case.tokens, case.d_in, dtype=torch.float64)
    x[0, :, :content] = round_to_dtype(draw_normal(case, "x", case.tokens, content), case)
    for column in range(min(columns, case.tokens - start)):
        x[0, start + column, content + column] = 1
    return x


def _extract_columns(
    outputs: list[Tensor], case: Case, columns: int
) -> Float[Tensor, "heads tokens tokens"]:
    shown = [o[0].unflatten(-1, (case.heads, case.head_dim))[..., :columns] for o in outputs]
    return torch.cat(shown, dim=-1).transpose(0, 1)[..., : case.tokens]


def fit_for_recovery(case: Case) -> Case | None:
    """Return the case with at least two input dimensions and two tokens, and without a mask."""
    return replace(
        case,
        tokens=max(case.tokens, 2),
        context_length=max(case.context_length, 2),
        d_in=max(case.d_in, 2),
        d_latent=max(case.d_latent, 2) if case.d_latent else 0,
        # Where d_in is d_out, two dimensions take two heads or a wider one.
        head_dim=max(case.head_dim, 2) if case.heads == 1 else case.head_dim,
        mask_form=MaskForm.NONE,
    )


REQUIRED_CAPABILITIES = (
    Capability.PROJECTED,
    Capability.ATTENTION,
    Capability.TOKENS,
    Capability.BARE,
)
