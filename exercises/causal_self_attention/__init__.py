"""Causal self-attention with one fused projection and a config object."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Argument, Capability, Contract

CONTRACT = Contract(
    name="CausalSelfAttention",
    arguments=(Argument("config", "config"),),
    mappings=parts.FUSED,
    square=True,
    capabilities=parts.MODULE | parts.CAUSAL | parts.HEADS | {Capability.BIAS, Capability.CONFIG},
)

EXERCISE = Exercise(
    slug="causal_self_attention",
    title="Causal self-attention with a fused projection",
    contract=CONTRACT,
    folder=Path(__file__).parent,
    aliases=("CausalSelfAttention",),
)
