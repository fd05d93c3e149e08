"""Causal attention with dropout, for batches of sequences."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Capability, Contract

CONTRACT = Contract(
    name="CausalAttention",
    arguments=(
        parts.D_IN,
        parts.D_OUT,
        parts.CONTEXT_LENGTH,
        parts.DROPOUT,
        parts.QKV_BIAS,
    ),
    mappings=parts.QKV,
    capabilities=parts.MODULE | parts.CAUSAL | parts.OPTIONAL_BIAS | {Capability.DROPOUT},
)

EXERCISE = Exercise("causal_attention", "Causal attention", CONTRACT, Path(__file__).parent)
