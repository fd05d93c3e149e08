"""Misconceptions: mistakes that people make when they write attention, by name.

Each is the oracle with a step or two done otherwise (`reference.recipe`), so what it does to any
input can be computed and compared. The simpler one comes first: where two cannot be told apart, it
is the one to think of.
"""

from reference.misconceptions.dropout import DROPOUT
from reference.misconceptions.heads import HEADS
from reference.misconceptions.layers import LAYERS
from reference.misconceptions.mask import MASK
from reference.misconceptions.misconception import Look, Misconception, of_heads
from reference.misconceptions.output import NOTHING, OUTPUT
from reference.misconceptions.scale import SCALE
from reference.misconceptions.softmax import SOFTMAX

CATALOGUE = (*NOTHING, *SCALE, *SOFTMAX, *MASK, *LAYERS, *of_heads(HEADS), *OUTPUT)

ALL = (*CATALOGUE, *DROPOUT)

__all__ = ["ALL", "CATALOGUE", "DROPOUT", "Look", "Misconception"]
