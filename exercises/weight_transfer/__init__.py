"""Move the weights of SelfAttention_v2 into SelfAttention_v1, so that both compute the same."""

from dataclasses import replace
from pathlib import Path

from exercises import parts, self_attention_v1, self_attention_v2
from exercises.exercise import Exercise
from properties.contract import Capability, Contract, Entry

SOURCE = replace(
    self_attention_v2.CONTRACT, arguments=(parts.D_IN, parts.D_OUT)
)  # v1 has no biases to move v2's into
TARGET = self_attention_v1.CONTRACT

CONTRACT = Contract(
    name="transfer_weights",
    entry=Entry.TRANSFER,
    transfer=(SOURCE, TARGET),
    mappings=SOURCE.mappings,
    call=("v2", "v1"),
    capabilities=(parts.MODULE | {Capability.FULL, Capability.TRANSFER}) - {Capability.INITIALISED},
)

EXERCISE = Exercise(
    "weight_transfer", "Moving weights between layouts", CONTRACT, Path(__file__).parent
)
