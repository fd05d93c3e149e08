"""A linear layer is a matrix product: x Wᵀ + b."""

from pathlib import Path

from exercises.exercise import Exercise
from properties.contract import Capability as C
from properties.contract import Contract, Entry
from properties.parameter_mapping import ParameterMapping

CONTRACT = Contract(
    name="linear",
    entry=Entry.FUNCTION,
    call=("x", "weight", "bias"),
    mappings=(ParameterMapping("weight", ("W_v",)), ParameterMapping("bias", ("b_v",))),
    capabilities=frozenset({C.TOKENS, C.BATCH, C.PROJECTED, C.BIAS, C.HEADS, C.WIDTHS}),
)

EXERCISE = Exercise("linear_layer", "A linear layer", CONTRACT, Path(__file__).parent)
