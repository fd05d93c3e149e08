"""Tell a mask that is wrong from one that is applied wrongly, so that fewer lines are told."""

from collections.abc import Set

import torch
from torch import Tensor

from headcheck.grader.grading.tracing.graph import Flow
from headcheck.grader.grading.tracing.operations import Action

HIDDEN = -1e4
"""scores below this are hidden"""


def list_suspects(flow: Flow, step: int, hidden: Tensor, between: Set[int]) -> set[int]:
    """Return the steps that may be wrong, of those between right scores and a step that hides.

    If the mask is right, what makes it is not wrong; if it is not, and not only inverted, then what
    hides by it is right.
    """
    sources, filled = flow.steps[step].sources, flow.values.get(step)
    mask = flow.values.get(sources[1]) if len(sources) > 1 else None
    fills = flow.does[step] is Action.FILL and flow.numels[step] == hidden.numel()
    if not fills or mask is None:
        return set(between)
    try:
        shown = (mask.values.reshape(mask.shape) != 0).expand(hidden.shape)
    except RuntimeError:  # its axes are in another order
        return set(between)
    if torch.equal(shown, hidden):
        return set(between) - flow.walk_back([mask.number])
    if torch.equal(shown, ~hidden) or filled is None:
        return set(between)
    hides = torch.equal((filled.values < HIDDEN).reshape(shown.shape), shown)
    return set(between) - {step} if hides else set(between)
