"""Several causal heads side by side, their outputs concatenated."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Capability, Contract
from properties.parameter_mapping import ParameterMapping

CONTRACT = Contract(
    name="MultiHeadAttentionWrapper",
    arguments=(
        parts.D_IN,
        parts.HEAD_D_OUT,
        parts.CONTEXT_LENGTH,
        parts.DROPOUT,
        parts.NUM_HEADS,
        parts.QKV_BIAS,
    ),
    mappings=tuple(
        ParameterMapping(f"heads.{{head}}.{mapping.path}", mapping.holds) for mapping in parts.QKV
    ),
    capabilities=parts.MODULE
    | parts.CAUSAL
    | parts.OPTIONAL_BIAS
    | {Capability.DROPOUT, Capability.HEADS},
)

EXERCISE = Exercise(
    "multi_head_wrapper",
    "Multi-head attention by concatenating heads",
    CONTRACT,
    Path(__file__).parent,
)
