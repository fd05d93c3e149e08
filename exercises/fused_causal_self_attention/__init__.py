"""Causal self-attention through F.scaled_dot_product_attention."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Capability, Contract

CONTRACT = Contract(
    name="FusedCausalSelfAttention",
    arguments=(parts.BLOCK_SIZE, parts.N_HEAD, parts.N_EMBD),
    mappings=parts.FUSED,
    square=True,
    capabilities=parts.MODULE | parts.CAUSAL | parts.HEADS | {Capability.BIAS, Capability.FUSED},
)

EXERCISE = Exercise(
    "fused_causal_self_attention",
    "Fused causal self-attention",
    CONTRACT,
    Path(__file__).parent,
    aliases=("CausalSelfAttention",),
)
