"""Tell a mask that is wrong from one that is applied wrongly, so that fewer lines are told."""

import math
from collections.abc import Set
from dataclasses import dataclass

import torch
from torch import Tensor

from headcheck.grader.grading.places.stage_search import SearchReader

FILLS = ("masked_fill", "masked_fill_")
"""functions that hide scores where a mask is true"""
HIDDEN = -1e4
"""scores below this are hidden"""


@dataclass(frozen=True, eq=False)
class MaskReader(SearchReader):
    """Reads the mask by which a step hides scores."""

    def list_suspects(self, step: int, hidden: Tensor, between: Set[int]) -> set[int]:
        """Return the steps that may be wrong, of those between right scores and a step that hides.

        If the mask is right, what makes it is not wrong; if it is not, and not only inverted, then
        what hides by it is right.
        """
        mask = self._find_mask(step)
        if mask is None or math.prod(self.flow.steps[step].shape) != hidden.numel():
            return set(between)
        number, hides = mask
        try:
            shown = hides.expand(hidden.shape)
        except RuntimeError:  # its axes are in another order
            return set(between)
        if torch.equal(shown, hidden):
            return set(between) - self.flow.walk_back([number])
        is_applied = not torch.equal(shown, ~hidden) and self._hides(step, shown)
        return set(between) - {step} if is_applied else set(between)

    def _find_mask(self, step: int) -> tuple[int, Tensor] | None:
        """Return the step of the mask by which scores are filled, and what it hides."""
        traced = self.flow.steps[step]
        if traced.kind not in FILLS or len(traced.sources) < 2:
            return None
        recorded = self.flow.values.get(traced.sources[1])
        if recorded is None:
            return None
        return traced.sources[1], recorded.values.reshape(recorded.shape) != 0

    def _hides(self, step: int, shown: Tensor) -> bool:
        """Whether a step hides what a mask says, and nothing else."""
        recorded = self.flow.values.get(step)
        if recorded is None or recorded.values.numel() != shown.numel():
            return False
        return torch.equal((recorded.values < HIDDEN).reshape(shown.shape), shown)
