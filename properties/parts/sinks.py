"""Sinks: scores without keys or values, one for each head, that take a share of the weights.

Sources: the released code of GPT-OSS (OpenAI 2025); Xiao et al. 2023, "Efficient Streaming Language
Models with Attention Sinks", section 3.1 (arXiv:2309.17453).
"""

from headcheck.properties.parts.part import Part, holds
from headcheck.properties.parts.weight import Packing, Weight, one
from headcheck.properties.terms.capability import Capability

SINKS = Part(
    name="sinks",
    is_in=holds("sinks"),
    brings=frozenset({Capability.SINKS}),
    breaks=frozenset({Capability.CONSTANT_SUM, Capability.NORMALISED}),
    weights=(
        Weight(
            "sinks",
            12,
            lambda draws: draws.vector("sinks", draws.case.heads),
            rows=one,
            packings=(Packing.ROWS, Packing.IMAGE_CONVOLUTION, Packing.BROADCAST),
            is_optional=False,
            words="the sinks, a number for each head",
            is_named=lambda path: True,
            make_example=lambda sizes: (2, 1)[: sizes.heads],
            show_example=lambda each: (
                f"{'sinks' if len(each) > 1 else 'a sink of'} {' and '.join(each)}"
            ),
        ),
    ),
    needed={Capability.SINKS: "a parameter must hold sinks"},
    describe=lambda contract: "sinks",
)
