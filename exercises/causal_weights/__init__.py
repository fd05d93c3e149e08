"""Causal attention weights, by renormalising and by masking with −inf."""

from pathlib import Path

from exercises.exercise import Exercise
from properties.contract import Contract, Entry, Returns, Trait

CONTRACT = Contract(
    name="causal_weights",
    entry=Entry.FUNCTION,
    call=("queries", "keys"),
    returns=Returns.WEIGHTS_TWICE,
    traits=frozenset({Trait.ATTENTION, Trait.CAUSAL, Trait.PROJECTED, Trait.WEIGHTS}),
)

EXERCISE = Exercise(
    slug="causal_weights",
    title="Causal attention weights in two ways",
    contract=CONTRACT,
    folder=Path(__file__).parent,
)
