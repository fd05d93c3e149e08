"""Scaled dot-product attention with weights that are handed in."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Capability, Contract, Entry

CONTRACT = Contract(
    name="scaled_dot_product_attention",
    entry=Entry.FUNCTION,
    call=("x", "W_query", "W_key", "W_value"),
    mappings=parts.QKV_TRANSPOSED,
    capabilities=parts.FUNCTION | {Capability.PROJECTED},
)

EXERCISE = Exercise(
    "scaled_dot_product", "Scaled dot-product attention", CONTRACT, Path(__file__).parent
)
