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
from tests.properties.modules import MultiHeadAttentionWrapper

CONTRACT = BY_SLUG["multi_head_wrapper"].contract


def build(draw_shape: str) -> type[nn.Module]:
    """Build a module whose dropout draws one number for weights that `draw_shape` puts together."""

    class Dropping(MultiHeadAttentionWrapper):
        def forward(self, x: Tensor) -> Tensor:
            b, t, _ = x.shape
            shape = {
                "heads": (b, 1, t, t),
                "queries": (b, len(self.heads), 1, t),
                "keys": (b, len(self.heads), t, 1),
                "sequences": (1, len(self.heads), t, t),
            }.get(draw_shape, (b, len(self.heads), t, t))
            drawn = torch.rand(shape).expand(b, len(self.heads), t, t)
            self.kept = ((drawn >= self.rate) / (1 - self.rate)).to(x)
            return super().forward(x)

        def weigh(self, queries: Tensor, keys: Tensor, head: int) -> Tensor:
            weights = super().weigh(queries, keys, head)
            return weights * self.kept[:, head] if self.training else weights

    return Dropping


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
