"""A linear layer is a matrix product: x Wᵀ + b."""

from pathlib import Path

from exercises.exercise import Exercise
from properties.contract import Capability, Contract, Entry, ParameterMapping

CONTRACT = Contract(
    name="linear",
    entry=Entry.FUNCTION,
    call=("x", "weight", "bias"),
    mappings=(ParameterMapping("weight", ("W_v",)), ParameterMapping("bias", ("b_v",))),
    capabilities=frozenset(
        {
            Capability.TOKENS,
            Capability.BATCH,
            Capability.PROJECTED,
            Capability.BIAS,
            Capability.HEADS,
            Capability.WIDTHS,
        }
    ),
)

EXERCISE = Exercise(
    slug="linear_layer",
    title="A linear layer",
    contract=CONTRACT,
    folder=Path(__file__).parent,
)
