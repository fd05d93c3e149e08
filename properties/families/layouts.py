"""Incoming gradients may have any memory layout, like inputs.

The gradient from a sum is one number, expanded; the gradient from a transposing layer is
transposed. Some kernels read both as if they were contiguous, or did so only for wide heads and
many sequences (Dao-AILab/flash-attention#355, #2541). No exercise requires this property; the
pytest plugin checks it.
"""

from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.batch import the_memory_layout_does_not_matter
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.gradients import (
    assert_close_to_exact,
    gradients_are_right_at_every_size,
)
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup

family_property = PropertyFamily(PropertyGroup.GRADIENTS, FORM)
SIZES = (
    {"batch": 2, "tokens": 5, "d_in": 3, "heads": 2, "head_dim": 2, "sharpness": 2},
    {"batch": 9, "tokens": 5, "d_in": 6, "heads": 2, "head_dim": 64, "sharpness": 2},
)
LAYOUTS = ("transposed", "sliced", "expanded")


@family_property(
    C.PROJECTED,
    C.TOKENS,
    C.MODULE,
    C.STRIDED,
    after=(gradients_are_right_at_every_size, the_memory_layout_does_not_matter),
    sizes=SIZES,
    hint="are numbers read in another order than the one in memory?",
)
def gradients_are_right_in_every_layout(context: LiveContext) -> None:
    """Inputs and incoming gradients may have any memory layout, and heads may be wide."""
    cotangent = context.cotangent[:1].expand_as(context.cotangent).clone()
    exact = context.compute_exact_gradients(cotangent)
    context.adapter.set(context.parameters)
    for memory in LAYOUTS:
        own = context.adapter.vjp(context.x, cotangent, context.mask, memory=memory)
        assert_close_to_exact(context, own, exact, exact.values)
