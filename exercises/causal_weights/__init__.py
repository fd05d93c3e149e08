"""Causal attention weights, by renormalising and by masking with −inf."""

from pathlib import Path

from exercises.exercise import Exercise
from properties.contract import Capability, Contract, Entry, Returns

CONTRACT = Contract(
    name="causal_weights",
    entry=Entry.FUNCTION,
    call=("queries", "keys"),
    returns=Returns.WEIGHTS_TWICE,
    capabilities=frozenset(
        {Capability.ATTENTION, Capability.CAUSAL, Capability.PROJECTED, Capability.WEIGHTS}
    ),
)

EXERCISE = Exercise(
    "causal_weights", "Causal attention weights in two ways", CONTRACT, Path(__file__).parent
)
