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
    "causal_self_attention",
    "Causal self-attention with a fused projection",
    CONTRACT,
    Path(__file__).parent,
    aliases=("CausalSelfAttention",),
)
