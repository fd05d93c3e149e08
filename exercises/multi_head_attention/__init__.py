"""Multi-head attention by splitting one projection into heads."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Contract, Trait

CONTRACT = Contract(
    name="MultiHeadAttention",
    arguments=(
        parts.D_IN,
        parts.D_OUT,
        parts.CONTEXT_LENGTH,
        parts.DROPOUT,
        parts.NUM_HEADS,
        parts.QKV_BIAS,
    ),
    slots=(*parts.QKV, *parts.OUT_PROJ),
    traits=parts.MODULE
    | parts.CAUSAL
    | parts.HEADS
    | parts.OPTIONAL_BIAS
    | {Trait.DROPOUT, Trait.DIVISIBLE},
)

EXERCISE = Exercise(
    slug="multi_head_attention",
    title="Multi-head attention",
    contract=CONTRACT,
    folder=Path(__file__).parent,
)
