"""Several causal heads side by side, their outputs concatenated."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Contract, Slot, Trait

CONTRACT = Contract(
    name="MultiHeadAttentionWrapper",
    arguments=(
        parts.D_IN,
        parts.HEAD_D_OUT,
        parts.CONTEXT_LENGTH,
        parts.DROPOUT,
        parts.NUM_HEADS,
        parts.QKV_BIAS,
    ),
    slots=tuple(Slot(f"heads.{{head}}.{slot.path}", slot.holds) for slot in parts.QKV),
    traits=parts.MODULE | parts.CAUSAL | parts.OPTIONAL_BIAS | {Trait.DROPOUT, Trait.HEADS},
)

EXERCISE = Exercise(
    slug="multi_head_wrapper",
    title="Multi-head attention by concatenating heads",
    contract=CONTRACT,
    folder=Path(__file__).parent,
)
