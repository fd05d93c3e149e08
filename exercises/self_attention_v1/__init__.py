"""Self-attention as a module, with plain parameters."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Capability, Contract

CONTRACT = Contract(
    name="SelfAttention_v1",
    arguments=(parts.D_IN, parts.D_OUT),
    mappings=parts.QKV_TRANSPOSED,
    capabilities=parts.MODULE | {Capability.FULL, Capability.UNIFORM},
)

EXERCISE = Exercise(
    "self_attention_v1",
    "Self-attention with nn.Parameter",
    CONTRACT,
    Path(__file__).parent,
    aliases=("SelfAttentionV1", "SelfAttention1"),
)
