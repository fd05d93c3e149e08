"""Causal self-attention with one fused projection and a config object."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Argument, Contract, Trait

CONTRACT = Contract(
    name="CausalSelfAttention",
    arguments=(Argument("config", "config"),),
    slots=parts.FUSED,
    square=True,
    traits=parts.MODULE | parts.CAUSAL | parts.HEADS | {Trait.BIAS, Trait.CONFIG},
)

EXERCISE = Exercise(
    slug="causal_self_attention",
    title="Causal self-attention with a fused projection",
    contract=CONTRACT,
    folder=Path(__file__).parent,
    also_called=("CausalSelfAttention",),
)
