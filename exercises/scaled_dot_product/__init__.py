"""Scaled dot-product attention with weights that are handed in."""

from pathlib import Path

from exercises.exercise import Exercise
from properties.contract import Capability, Contract, Entry, ParameterMapping

CONTRACT = Contract(
    name="scaled_dot_product_attention",
    entry=Entry.FUNCTION,
    call=("x", "W_query", "W_key", "W_value"),
    mappings=(
        ParameterMapping("W_query", ("W_q",), transposed=True),
        ParameterMapping("W_key", ("W_k",), transposed=True),
        ParameterMapping("W_value", ("W_v",), transposed=True),
    ),
    capabilities=frozenset(
        {
            Capability.TOKENS,
            Capability.ATTENTION,
            Capability.FULL,
            Capability.PROJECTED,
            Capability.WIDTHS,
            Capability.STABLE,
        }
    ),
)

EXERCISE = Exercise(
    slug="scaled_dot_product",
    title="Scaled dot-product attention",
    contract=CONTRACT,
    folder=Path(__file__).parent,
)
