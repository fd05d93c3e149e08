"""Build the attention module of the smallest GPT-2: 12 heads, 768 wide, 1024 tokens."""

from dataclasses import replace
from pathlib import Path

from exercises import multi_head_attention, parts
from exercises.exercise import Exercise
from properties.contract import Capability, Entry

CONTRACT = replace(
    multi_head_attention.CONTRACT,
    name="gpt2_small_attention",
    entry=Entry.BUILDER,
    arguments=(),
    sizes={"d_in": 768, "heads": 12, "head_dim": 64, "context_length": 1024},
    capabilities=multi_head_attention.CONTRACT.capabilities
    - parts.OPTIONAL_BIAS
    - {Capability.DROPOUT, Capability.DIVISIBLE, Capability.WIDTHS},
)

EXERCISE = Exercise(
    "gpt2_size",
    "Attention of the size of GPT-2",
    CONTRACT,
    Path(__file__).parent,
    cases=3,
    # A correct answer takes most of a second for the longest sequence.
    limits={"slow_s": 5.0},
)
