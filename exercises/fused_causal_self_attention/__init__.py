"""Causal self-attention through F.scaled_dot_product_attention."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Contract, Trait

CONTRACT = Contract(
    name="FusedCausalSelfAttention",
    arguments=(parts.BLOCK_SIZE, parts.N_HEAD, parts.N_EMBD),
    slots=parts.FUSED,
    square=True,
    traits=parts.MODULE | parts.CAUSAL | parts.HEADS | {Trait.BIAS, Trait.FUSED},
)

EXERCISE = Exercise(
    slug="fused_causal_self_attention",
    title="Fused causal self-attention",
    contract=CONTRACT,
    folder=Path(__file__).parent,
    also_called=("CausalSelfAttention",),
)
