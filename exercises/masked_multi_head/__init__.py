"""Multi-head attention with an optional mask, returning its weights."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Argument, Contract, Returns, Slot, Trait

CONTRACT = Contract(
    name="MultiHeadAttention",
    arguments=(Argument("d_model", "d_out"), parts.NUM_HEADS),
    slots=(
        *parts.linears("W_q", "W_k", "W_v"),
        Slot("W_o.weight", ("W_o",)),
        Slot("W_o.bias", ("b_o",)),
    ),
    call=("x", "mask"),
    returns=Returns.OUTPUT_AND_WEIGHTS,
    square=True,
    traits=parts.MODULE
    | parts.HEADS
    | {Trait.BATCH, Trait.BIAS, Trait.FULL, Trait.MASK, Trait.WEIGHTS},
)

EXERCISE = Exercise(
    slug="masked_multi_head",
    title="Multi-head attention with a mask",
    contract=CONTRACT,
    folder=Path(__file__).parent,
)
