"""Multi-head attention with an optional mask, returning its weights."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Argument, Capability, Contract, Returns

CONTRACT = Contract(
    name="MultiHeadAttention",
    arguments=(
        Argument("d_model", "d_out", default=512),
        Argument("num_heads", "heads", default=8),
    ),
    mappings=(
        *parts.make_qkv_mappings("W_q", "W_k", "W_v"),
        *parts.make_linear_mappings("W_o", "o"),
    ),
    call=("x", "mask"),
    returns=Returns.OUTPUT_AND_WEIGHTS,
    square=True,
    capabilities=parts.MODULE
    | parts.HEADS
    | {Capability.BATCH, Capability.BIAS, Capability.FULL, Capability.MASK, Capability.WEIGHTS},
)

EXERCISE = Exercise(
    "masked_multi_head", "Multi-head attention with a mask", CONTRACT, Path(__file__).parent
)
