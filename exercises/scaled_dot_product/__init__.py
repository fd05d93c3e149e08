"""Scaled dot-product attention with weights that are handed in."""

from pathlib import Path

from exercises.exercise import Exercise
from properties.contract import Contract, Entry, Slot, Trait

CONTRACT = Contract(
    name="scaled_dot_product_attention",
    entry=Entry.FUNCTION,
    call=("x", "W_query", "W_key", "W_value"),
    slots=(
        Slot("W_query", ("W_q",), transposed=True),
        Slot("W_key", ("W_k",), transposed=True),
        Slot("W_value", ("W_v",), transposed=True),
    ),
    traits=frozenset(
        {Trait.TOKENS, Trait.ATTENTION, Trait.FULL, Trait.PROJECTED, Trait.WIDTHS, Trait.STABLE}
    ),
)

EXERCISE = Exercise(
    slug="scaled_dot_product",
    title="Scaled dot-product attention",
    contract=CONTRACT,
    folder=Path(__file__).parent,
)
