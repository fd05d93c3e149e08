"""Attention without trainable weights: softmax(x xᵀ) x."""

from pathlib import Path

from exercises.exercise import Exercise
from properties.contract import Capability, Contract, Entry

CONTRACT = Contract(
    name="simplified_attention",
    entry=Entry.FUNCTION,
    call=("x",),
    capabilities=frozenset(
        {
            Capability.TOKENS,
            Capability.ATTENTION,
            Capability.FULL,
            Capability.WIDTHS,
            Capability.STABLE,
        }
    ),
    square=True,
    scale=1.0,
)

EXERCISE = Exercise(
    slug="simplified_attention",
    title="Attention without weights",
    contract=CONTRACT,
    folder=Path(__file__).parent,
)
