"""Build the attention module of the smallest GPT-2: 12 heads, 768 wide, 1024 tokens."""

from dataclasses import replace
from pathlib import Path

from exercises import multi_head_attention
from exercises.exercise import Exercise
from properties.contract import Capability, Entry

CONTRACT = replace(
    multi_head_attention.CONTRACT,
    name="gpt2_small_attention",
    entry=Entry.BUILDER,
    arguments=(),
    sizes={"d_in": 768, "heads": 12, "head_dim": 64, "context_length": 1024},
    capabilities=multi_head_attention.CONTRACT.capabilities
    - {
        Capability.DROPOUT,
        Capability.BIAS,
        Capability.BIAS_OPTION,
        Capability.DIVISIBLE,
        Capability.WIDTHS,
    },
)

EXERCISE = Exercise(
    slug="gpt2_size",
    title="Attention of the size of GPT-2",
    contract=CONTRACT,
    folder=Path(__file__).parent,
    cases=3,
    # A right answer computes for most of a second on the longest sequence.
    limits={"slow_s": 5.0},
)
