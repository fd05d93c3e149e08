"""Incoming gradients may have any memory layout, as the input may.

A loss that is a sum gives back one number, expanded; a layer that transposes gives back a
transposed tensor. Kernels have read both as if they were contiguous, some for wide heads and many
sequences only (Dao-AILab/flash-attention#355, #2541). No exercise asks for this: the pytest plugin
tries it.
"""

from headcheck.properties.contract import Capability
from headcheck.properties.families.batch import the_memory_layout_does_not_matter
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.gradients import (
    assert_close_to_exact,
    gradients_are_right_at_every_size,
)
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup

family_property = PropertyFamily(PropertyGroup.GRADIENTS, FORM)
C = Capability
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
