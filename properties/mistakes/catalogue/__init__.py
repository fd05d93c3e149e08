"""The catalogue of mistakes that people make when they write attention, by name.

Each is the oracle with a step or two replaced (`properties.mistakes.pipeline`), so its answer to
any input can be computed and compared. Simpler mistakes come first: where two are
indistinguishable, the first is reported.
"""

from properties.mistakes.catalogue.dropout import DROPOUT
from properties.mistakes.catalogue.gradients import GRADIENTS
from properties.mistakes.catalogue.heads import HEADS
from properties.mistakes.catalogue.layers import LAYERS
from properties.mistakes.catalogue.mask import MASK
from properties.mistakes.catalogue.mistake import CodeMatcher, Mistake, require_several_heads
from properties.mistakes.catalogue.numbers import NUMBERS
from properties.mistakes.catalogue.output import OUTPUT, TRIVIAL
from properties.mistakes.catalogue.scale import SCALE
from properties.mistakes.catalogue.softmax import SOFTMAX
from properties.mistakes.catalogue.sources import SOURCES

DETERMINISTIC = (*TRIVIAL, *SCALE, *SOFTMAX, *MASK, *LAYERS, *require_several_heads(HEADS), *OUTPUT)

ALL = (*DETERMINISTIC, *SOURCES, *NUMBERS, *GRADIENTS, *DROPOUT)

__all__ = [
    "ALL",
    "DETERMINISTIC",
    "DROPOUT",
    "GRADIENTS",
    "NUMBERS",
    "SOURCES",
    "CodeMatcher",
    "Mistake",
]
