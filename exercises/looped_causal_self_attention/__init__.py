"""Causal self-attention as a loop over heads."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Contract, Slot, Trait

HEAD = "heads.{head}."

CONTRACT = Contract(
    name="MultiHead",
    arguments=(parts.BLOCK_SIZE, parts.N_HEAD, parts.N_EMBD),
    slots=(
        Slot(HEAD + "query_W", ("W_q",)),
        Slot(HEAD + "key_W", ("W_k",)),
        Slot(HEAD + "value_W", ("W_v",)),
        Slot(HEAD + "query_b", ("b_q",)),
        Slot(HEAD + "key_b", ("b_k",)),
        Slot(HEAD + "value_b", ("b_v",)),
        Slot("proj_W", ("W_o",)),
        Slot("proj_b", ("b_o",)),
    ),
    square=True,
    traits=parts.MODULE | parts.CAUSAL | parts.HEADS | {Trait.BIAS},
)

EXERCISE = Exercise(
    slug="looped_causal_self_attention",
    title="Causal self-attention as a loop over heads",
    contract=CONTRACT,
    folder=Path(__file__).parent,
)
