"""Self-attention as a module, with linear layers."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Capability, Contract

CONTRACT = Contract(
    name="SelfAttention_v2",
    arguments=(parts.D_IN, parts.D_OUT, parts.QKV_BIAS),
    mappings=parts.QKV,
    capabilities=parts.MODULE | parts.OPTIONAL_BIAS | {Capability.FULL},
)

EXERCISE = Exercise(
    "self_attention_v2",
    "Self-attention with nn.Linear",
    CONTRACT,
    Path(__file__).parent,
    aliases=("SelfAttentionV2", "SelfAttention2", "SelfAttention"),
)
