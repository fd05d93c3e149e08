"""The catalogue of common mistakes in attention, without structural ones.

Each mistake is the oracle with one or two steps replaced (`properties.mistakes.pipeline`), so its
answer to any input can be computed and compared. Simpler mistakes come first: if two are
indistinguishable, the first is reported.
"""

from headcheck.properties.mistakes.catalogue.alignment import ALIGNMENT, OPTION
from headcheck.properties.mistakes.catalogue.backward import BACKWARD
from headcheck.properties.mistakes.catalogue.blocks import BLOCKS, LOGSUMEXP
from headcheck.properties.mistakes.catalogue.differential import DIFFERENTIAL
from headcheck.properties.mistakes.catalogue.dropout import DROPOUT
from headcheck.properties.mistakes.catalogue.features import FEATURES
from headcheck.properties.mistakes.catalogue.gates import GATES
from headcheck.properties.mistakes.catalogue.gradients import GRADIENTS
from headcheck.properties.mistakes.catalogue.head_norms import HEAD_NORMS
from headcheck.properties.mistakes.catalogue.heads import HEADS
from headcheck.properties.mistakes.catalogue.latents import LATENTS
from headcheck.properties.mistakes.catalogue.layers import LAYERS
from headcheck.properties.mistakes.catalogue.made_masks import MADE_MASKS
from headcheck.properties.mistakes.catalogue.mask import MASK
from headcheck.properties.mistakes.catalogue.mistake import CodeMatcher, Mistake
from headcheck.properties.mistakes.catalogue.norms import NORMS
from headcheck.properties.mistakes.catalogue.output import OUTPUT, RETURNED, TRIVIAL
from headcheck.properties.mistakes.catalogue.padding import PADDING
from headcheck.properties.mistakes.catalogue.positions import ALIBI, LIMITED, ROTARY
from headcheck.properties.mistakes.catalogue.relative import RELATIVE_BIAS
from headcheck.properties.mistakes.catalogue.rotary_scaling import SCALED_ROTARY
from headcheck.properties.mistakes.catalogue.scale import SCALE
from headcheck.properties.mistakes.catalogue.sharing import SHARING
from headcheck.properties.mistakes.catalogue.sinks import SINKS
from headcheck.properties.mistakes.catalogue.softmax import SOFTMAX
from headcheck.properties.mistakes.catalogue.sources import SOURCES
from headcheck.properties.mistakes.catalogue.transformer_block import AROUND_ATTENTION
from headcheck.properties.mistakes.catalogue.windows import WINDOWS

DETERMINISTIC = (*TRIVIAL, *SCALE, *SOFTMAX, *MASK, *LAYERS, *HEADS, *OUTPUT, *RETURNED)

OF_SOME_CONTRACTS = (
    *SOURCES,
    *ALIGNMENT,
    *OPTION,
    *BLOCKS,
    *LOGSUMEXP,
    *WINDOWS,
    *SHARING,
    *PADDING,
    *MADE_MASKS,
)
"""mistakes that are possible only under some contracts"""

EQUATION = (
    *DETERMINISTIC,
    *OF_SOME_CONTRACTS,
    *AROUND_ATTENTION,
    *LATENTS,
    *ROTARY,
    *SCALED_ROTARY,
    *ALIBI,
    *LIMITED,
    *RELATIVE_BIAS,
    *SINKS,
    *HEAD_NORMS,
    *GATES,
    *DIFFERENTIAL,
    *FEATURES,
    *NORMS,
)
"""mistakes in the steps of the equation"""

ALL = (*EQUATION, *GRADIENTS, *BACKWARD, *DROPOUT)

__all__ = [
    "ALIBI",
    "ALL",
    "AROUND_ATTENTION",
    "BACKWARD",
    "DETERMINISTIC",
    "DIFFERENTIAL",
    "DROPOUT",
    "EQUATION",
    "FEATURES",
    "GATES",
    "HEAD_NORMS",
    "LATENTS",
    "LIMITED",
    "OF_SOME_CONTRACTS",
    "ROTARY",
    "SCALE",
    "SINKS",
    "CodeMatcher",
    "Mistake",
]
