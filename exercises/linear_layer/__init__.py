"""A linear layer is a matrix product: x Wᵀ + b."""

from pathlib import Path

from exercises.exercise import Exercise
from properties.contract import Contract, Entry, Slot, Trait

CONTRACT = Contract(
    name="linear",
    entry=Entry.FUNCTION,
    call=("x", "weight", "bias"),
    slots=(Slot("weight", ("W_v",)), Slot("bias", ("b_v",))),
    traits=frozenset(
        {Trait.TOKENS, Trait.BATCH, Trait.PROJECTED, Trait.BIAS, Trait.HEADS, Trait.WIDTHS}
    ),
)

EXERCISE = Exercise(
    slug="linear_layer",
    title="A linear layer",
    contract=CONTRACT,
    folder=Path(__file__).parent,
)
