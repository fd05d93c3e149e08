"""Causal self-attention as a loop over heads."""

from pathlib import Path

from exercises import parts
from exercises.exercise import Exercise
from properties.contract import Capability, Contract
from properties.parameter_mapping import ParameterMapping

CONTRACT = Contract(
    name="MultiHead",
    arguments=(parts.BLOCK_SIZE, parts.N_HEAD, parts.N_EMBD),
    mappings=(
        *(
            ParameterMapping(f"heads.{{head}}.{layer}_{kind}", (f"{kind}_{layer[0]}",))
            for kind in "Wb"
            for layer in ("query", "key", "value")
        ),
        ParameterMapping("proj_W", ("W_o",)),
        ParameterMapping("proj_b", ("b_o",)),
    ),
    square=True,
    capabilities=parts.MODULE | parts.CAUSAL | parts.HEADS | {Capability.BIAS},
)

EXERCISE = Exercise(
    "looped_causal_self_attention",
    "Causal self-attention as a loop over heads",
    CONTRACT,
    Path(__file__).parent,
)
