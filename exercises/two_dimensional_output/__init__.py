"""Choose d_out so that two concatenated heads give an output two wide."""

from dataclasses import replace
from pathlib import Path

from exercises import multi_head_wrapper, parts
from exercises.exercise import Exercise
from properties.contract import Capability, Entry

CONTRACT = replace(
    multi_head_wrapper.CONTRACT,
    name="two_dimensional_wrapper",
    entry=Entry.BUILDER,
    arguments=(parts.D_IN, parts.CONTEXT_LENGTH),
    sizes={"heads": 2, "head_dim": 1},
    capabilities=multi_head_wrapper.CONTRACT.capabilities
    - parts.OPTIONAL_BIAS
    - {Capability.DROPOUT, Capability.WIDTHS},
)

EXERCISE = Exercise("two_dimensional_output", "An output two wide", CONTRACT, Path(__file__).parent)
