"""Looks through every object in memory for the oracle, the exercises and the cases."""

import gc
import types

TARGETS = {
    "Case",
    "CaseContext",
    "Contract",
    "Exercise",
    "Expected",
    "Harness",
    "LiveContext",
    "Property",
    "Subject",
}


def attack_once():
    gc.unfreeze()
    won = set()
    for each in gc.get_objects():
        kind = type(each)
        if kind.__name__ in TARGETS and (kind.__module__ or "").startswith("headcheck"):
            won.add(kind.__name__)
        if kind is types.ModuleType and each.__name__.startswith(
            ("headcheck.reference", "headcheck.properties", "headcheck.exercises")
        ):
            won.add(each.__name__)
        if kind is types.FunctionType and (each.__module__ or "").startswith(
            ("headcheck.reference", "headcheck.properties.families")
        ):
            won.add(each.__qualname__)
    return sorted(won)
