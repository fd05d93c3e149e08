"""Self-attention as a module, with plain parameters."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Contract, Slot, Trait

CONTRACT = Contract(
    name="SelfAttention_v1",
    arguments=(parts.D_IN, parts.D_OUT),
    slots=(
        Slot("W_query", ("W_q",), transposed=True),
        Slot("W_key", ("W_k",), transposed=True),
        Slot("W_value", ("W_v",), transposed=True),
    ),
    traits=parts.MODULE | {Trait.FULL, Trait.UNIFORM},
)

EXERCISE = Exercise(
    slug="self_attention_v1",
    title="Self-attention with nn.Parameter",
    contract=CONTRACT,
    folder=Path(__file__).parent,
    also_called=("SelfAttentionV1", "SelfAttention1"),
)
