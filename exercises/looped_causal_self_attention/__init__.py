"""Causal self-attention as a loop over heads."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Capability, Contract, ParameterMapping

HEAD = "heads.{head}."

CONTRACT = Contract(
    name="MultiHead",
    arguments=(parts.BLOCK_SIZE, parts.N_HEAD, parts.N_EMBD),
    mappings=(
        ParameterMapping(HEAD + "query_W", ("W_q",)),
        ParameterMapping(HEAD + "key_W", ("W_k",)),
        ParameterMapping(HEAD + "value_W", ("W_v",)),
        ParameterMapping(HEAD + "query_b", ("b_q",)),
        ParameterMapping(HEAD + "key_b", ("b_k",)),
        ParameterMapping(HEAD + "value_b", ("b_v",)),
        ParameterMapping("proj_W", ("W_o",)),
        ParameterMapping("proj_b", ("b_o",)),
    ),
    square=True,
    capabilities=parts.MODULE | parts.CAUSAL | parts.HEADS | {Capability.BIAS},
)

EXERCISE = Exercise(
    slug="looped_causal_self_attention",
    title="Causal self-attention as a loop over heads",
    contract=CONTRACT,
    folder=Path(__file__).parent,
)
