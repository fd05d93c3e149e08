"""Multi-head attention with an optional mask, returning its weights."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Argument, Capability, Contract, ParameterMapping, Returns

CONTRACT = Contract(
    name="MultiHeadAttention",
    arguments=(Argument("d_model", "d_out"), parts.NUM_HEADS),
    mappings=(
        *parts.make_qkv_mappings("W_q", "W_k", "W_v"),
        ParameterMapping("W_o.weight", ("W_o",)),
        ParameterMapping("W_o.bias", ("b_o",)),
    ),
    call=("x", "mask"),
    returns=Returns.OUTPUT_AND_WEIGHTS,
    square=True,
    capabilities=parts.MODULE
    | parts.HEADS
    | {Capability.BATCH, Capability.BIAS, Capability.FULL, Capability.MASK, Capability.WEIGHTS},
)

EXERCISE = Exercise(
    slug="masked_multi_head",
    title="Multi-head attention with a mask",
    contract=CONTRACT,
    folder=Path(__file__).parent,
)
