"""Attention without trainable weights: softmax(x xᵀ) x."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Contract, Entry

CONTRACT = Contract(
    name="simplified_attention",
    entry=Entry.FUNCTION,
    call=("x",),
    capabilities=parts.FUNCTION,
    square=True,
    scale=1.0,
)

EXERCISE = Exercise(
    "simplified_attention", "Attention without weights", CONTRACT, Path(__file__).parent
)
