"""The catalogue of mistakes that people make when they write attention, by name.

Each mistake is the oracle with a step or two replaced (`properties.mistakes.pipeline`), so its
answer to any input can be computed and compared. Simpler mistakes come first: if two are
indistinguishable, the first is reported.
"""

from headcheck.properties.contract import Capability
from headcheck.properties.mistakes.catalogue.alignment import ALIGNMENT, OPTION
from headcheck.properties.mistakes.catalogue.backward import BACKWARD
from headcheck.properties.mistakes.catalogue.blocks import BLOCKS, LOGSUMEXP
from headcheck.properties.mistakes.catalogue.differential import DIFFERENTIAL
from headcheck.properties.mistakes.catalogue.dropout import DROPOUT
from headcheck.properties.mistakes.catalogue.features import FEATURES
from headcheck.properties.mistakes.catalogue.gates import GATES
from headcheck.properties.mistakes.catalogue.gradients import GRADIENTS
from headcheck.properties.mistakes.catalogue.heads import HEADS
from headcheck.properties.mistakes.catalogue.latents import LATENTS
from headcheck.properties.mistakes.catalogue.layers import LAYERS
from headcheck.properties.mistakes.catalogue.mask import MASK
from headcheck.properties.mistakes.catalogue.mistake import CodeMatcher, Mistake, require
from headcheck.properties.mistakes.catalogue.norms import NORMS
from headcheck.properties.mistakes.catalogue.numbers import (
    LIMIT_UNASKED,
    NUMBERS,
    POSITIONS_UNASKED,
)
from headcheck.properties.mistakes.catalogue.output import OUTPUT, RETURNED, TRIVIAL
from headcheck.properties.mistakes.catalogue.padding import PADDING
from headcheck.properties.mistakes.catalogue.positions import ALIBI, LIMITED, ROTARY
from headcheck.properties.mistakes.catalogue.scale import SCALE
from headcheck.properties.mistakes.catalogue.sharing import SHARING
from headcheck.properties.mistakes.catalogue.sinks import SINKS
from headcheck.properties.mistakes.catalogue.softmax import SOFTMAX
from headcheck.properties.mistakes.catalogue.sources import SOURCES
from headcheck.properties.mistakes.catalogue.transformer_block import AROUND_ATTENTION
from headcheck.properties.mistakes.catalogue.windows import WINDOWS

DETERMINISTIC = (
    *TRIVIAL, *SCALE, *SOFTMAX, *MASK, *LAYERS, *require(Capability.HEADS, HEADS), *OUTPUT,
    *RETURNED,
)  # fmt: skip

OF_SOME_CONTRACTS = (
    *require(Capability.CROSS, SOURCES),
    *require(Capability.ALIGNED, ALIGNMENT),
    *require(Capability.CAUSAL_OPTION, OPTION),
    *require(Capability.BLOCKED, BLOCKS),
    *require(Capability.LOGSUMEXP, LOGSUMEXP),
    *require(Capability.WINDOW, WINDOWS),
    *require(Capability.GROUPED, SHARING),
    *require(Capability.PADDING, PADDING),
)
"""mistakes that only some contracts allow"""

OF_A_SOFTMAX = frozenset(
    {
        *SCALE,
        *SOFTMAX,
        *(each for each in MASK if each.name.endswith(("_after_softmax", "_plus_infinity"))),
    }
)
"""mistakes in a softmax and its scale; linear attention has neither"""

ALL = (
    *DETERMINISTIC,
    *OF_SOME_CONTRACTS,
    *AROUND_ATTENTION,
    *LATENTS,
    *ROTARY,
    *ALIBI,
    *LIMITED,
    *SINKS,
    *GATES,
    *DIFFERENTIAL,
    *FEATURES,
    *NORMS,
    *NUMBERS,
    *GRADIENTS,
    *BACKWARD,
    *DROPOUT,
)

__all__ = [
    "ALIBI",
    "ALL",
    "AROUND_ATTENTION",
    "BACKWARD",
    "DETERMINISTIC",
    "DIFFERENTIAL",
    "DROPOUT",
    "FEATURES",
    "GATES",
    "GRADIENTS",
    "LATENTS",
    "LIMITED",
    "LIMIT_UNASKED",
    "NORMS",
    "NUMBERS",
    "OF_A_SOFTMAX",
    "OF_SOME_CONTRACTS",
    "POSITIONS_UNASKED",
    "ROTARY",
    "SCALE",
    "SINKS",
    "CodeMatcher",
    "Mistake",
]
