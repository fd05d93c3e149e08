"""Multi-head attention by splitting one projection into heads."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Capability, Contract

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
    mappings=(*parts.QKV, *parts.OUT_PROJ),
    capabilities=parts.MODULE
    | parts.CAUSAL
    | parts.HEADS
    | parts.OPTIONAL_BIAS
    | {Capability.DROPOUT, Capability.DIVISIBLE},
)

EXERCISE = Exercise("multi_head_attention", "Multi-head attention", CONTRACT, Path(__file__).parent)
