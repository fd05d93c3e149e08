"""Masks that leave some queries nothing to attend to."""

from torch import Tensor

from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.terms.capability import Capability

PADDED = 2
"""how many tokens of padding a padded sequence has in front"""


def hide_everything_from_some(context: CaseContext) -> Tensor:
    """Return the case's mask, changed so that some queries see nothing."""
    assert context.mask is not None
    mask = context.mask.clone()
    if mask.shape[-2] > 1:
        mask[..., 0, :] = 0
        mask[..., -1, :] = 0
        return mask
    mask[0] = 0
    if context.contract.has(Capability.ANY_KEYS):  # lengths count the first tokens
        mask[-1, ..., :PADDED] = 0  # where later tokens are hidden, too, the first ones see nothing
    return mask
