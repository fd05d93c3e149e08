"""Pairs of weights: no right module is accused under any seed, and what is shared is found."""

import pytest
import torch
from torch import Tensor, nn

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.families.dropped_pairs import no_two_weights_are_dropped_together
from headcheck.properties.families.dropped_weights import simplify_for_counting
from headcheck.properties.harness.harness import Harness
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Violation

CONTRACT = BY_SLUG["multi_head_wrapper"].contract


def build(draw_shape: str) -> type[nn.Module]:
    """Build a module whose dropout draws one number for weights that `draw_shape` puts together."""

    class MultiHeadAttentionWrapper(nn.Module):
        def __init__(
            self,
            d_in: int,
            d_out: int,
            context_length: int,
            dropout: float,
            num_heads: int,
            qkv_bias: bool = False,
        ) -> None:
            super().__init__()
            self.heads = nn.ModuleList(_Head(d_in, d_out, qkv_bias) for _ in range(num_heads))
            self.rate = dropout

        def forward(self, x: Tensor) -> Tensor:
            b, t, _ = x.shape
            shape = {
                "heads": (b, 1, t, t),
                "queries": (b, len(self.heads), 1, t),
                "keys": (b, len(self.heads), t, 1),
                "sequences": (1, len(self.heads), t, t),
            }.get(draw_shape, (b, len(self.heads), t, t))
            drawn = torch.rand(shape).expand(b, len(self.heads), t, t)
            kept = (drawn >= self.rate) / (1 - self.rate)
            parts = [head(x, kept[:, i].to(x), self.training) for i, head in enumerate(self.heads)]
            return torch.cat(parts, dim=-1)

    return MultiHeadAttentionWrapper


class _Head(nn.Module):
    def __init__(self, d_in: int, d_out: int, bias: bool) -> None:
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=bias)
        self.W_key = nn.Linear(d_in, d_out, bias=bias)
        self.W_value = nn.Linear(d_in, d_out, bias=bias)

    def forward(self, x: Tensor, kept: Tensor, training: bool) -> Tensor:
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (queries @ keys.mT / keys.shape[-1] ** 0.5).masked_fill(future, -torch.inf)
        weights = scores.softmax(-1)
        output: Tensor = (weights * kept if training else weights) @ values
        return output


def check(draw_shape: str, seed: int = 1) -> None:
    namespace = {"MultiHeadAttentionWrapper": build(draw_shape)}
    harness = Harness(make_subject(namespace), CONTRACT)
    case = CONTRACT.fit(simplify_for_counting(Case(seed=seed)))
    no_two_weights_are_dropped_together.check(harness.get_context(case))


@pytest.mark.parametrize("seed", range(1, 4))
def test_independent_weights_are_accepted(seed: int) -> None:
    """One of 10⁹ right modules fails; the seeds of the calls are fixed, so it never changes."""
    check("nothing", seed)


@pytest.mark.parametrize("shared", ["heads", "queries", "keys", "sequences"])
def test_weights_that_share_a_number_are_found(shared: str) -> None:
    with pytest.raises(Violation, match=shared):
        check(shared)
