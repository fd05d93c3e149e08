"""torch.nn.MultiheadAttention keeps every property, with its weights returned and without."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.grader.ui.pytest_plugin.plugin import apply_outcome
from headcheck.grader.ui.pytest_plugin.suite import PropertySuite, PropertyVariant
from headcheck.properties.contracts.parameter_mapping import ParameterMapping

CASES = 12
PACKED = (
    ParameterMapping("attention.in_proj_weight", ("W_q", "W_k", "W_v")),
    ParameterMapping("attention.in_proj_bias", ("b_q", "b_k", "b_v")),
    ParameterMapping("attention.out_proj.weight", ("W_o",)),
    ParameterMapping("attention.out_proj.bias", ("b_o",)),
)


class Masked(nn.Module):
    """It as the exercise masked_multi_head wants it."""

    def __init__(self, d_model: int = 512, num_heads: int = 8) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        blocked = None
        if mask is not None:
            batch, tokens, _ = x.shape
            heads = self.attention.num_heads
            # Here True hides, and the sequences and their heads are one axis.
            blocked = (mask == 0).expand(batch, heads, tokens, tokens).flatten(0, 1)
        output, weights = self.attention(
            x, x, x, attn_mask=blocked, need_weights=True, average_attn_weights=False
        )
        return output, weights


class Causal(nn.Module):
    """It as the exercise causal_self_attention wants it; without weights, by its fast path."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, heads = config.n_embd, config.n_head
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.shape[1]
        future = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
        output: Tensor = self.attention(x, x, x, attn_mask=future, need_weights=False)[0]
        return output


def suite_of(implementation: type[nn.Module], exercise: Exercise) -> PropertySuite:
    contract = replace(exercise.contract, mappings=PACKED)
    return PropertySuite({contract.name: implementation}, contract, CASES)


SUITES = {
    "masked": suite_of(Masked, BY_SLUG["masked_multi_head"]),
    "causal": suite_of(Causal, BY_SLUG["causal_self_attention"]),
}


def test_library_satisfies_the_property(suite: PropertySuite, cell: PropertyVariant) -> None:
    """`apply_outcome` fails or skips as the outcome says."""
    apply_outcome(suite.get_outcome(cell))


def test_a_search_finds_no_fault_in_the_library(
    suite: PropertySuite, searched: PropertyVariant
) -> None:
    """`apply_outcome` fails or skips as the outcome says."""
    apply_outcome(suite.search(searched))
