"""Self-attention as a module, with plain parameters."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Capability, Contract, ParameterMapping

CONTRACT = Contract(
    name="SelfAttention_v1",
    arguments=(parts.D_IN, parts.D_OUT),
    mappings=(
        ParameterMapping("W_query", ("W_q",), transposed=True),
        ParameterMapping("W_key", ("W_k",), transposed=True),
        ParameterMapping("W_value", ("W_v",), transposed=True),
    ),
    capabilities=parts.MODULE | {Capability.FULL, Capability.UNIFORM},
)

EXERCISE = Exercise(
    slug="self_attention_v1",
    title="Self-attention with nn.Parameter",
    contract=CONTRACT,
    folder=Path(__file__).parent,
    aliases=("SelfAttentionV1", "SelfAttention1"),
)
