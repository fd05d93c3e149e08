"""Mistakes in moving weights from one module to another."""

from headcheck.properties.families import (
    ALL,
    constructor,
    contract,
    history,
    list_properties,
    results,
    transfer,
)
from headcheck.properties.mistakes.catalogue.symptom import Symptom, define_structural_mistake
from headcheck.properties.violations.violation import Reason
from headcheck.properties.violations.violation import ViolationKind as Kind

ARRIVES = (transfer.every_weight_arrives,)
INDEPENDENT = (transfer.afterwards_the_two_modules_are_independent,)
OF_FORM = [p for each in (contract, constructor, results) for p in list_properties(each)]
OF_NUMBERS = tuple(p for p in ALL if p not in OF_FORM and p not in INDEPENDENT)
"""the properties that fail if a target's weights differ from the source's"""

TRANSFERS = (
    define_structural_mistake(
        "transferred_backwards",
        "The numbers go from v1 to v2; they should go from v2 to v1.",
        Symptom(INDEPENDENT, reasons={Reason.SOURCE_GOT_NUMBERS}),
        explains=OF_NUMBERS,
    ),
    define_structural_mistake(
        "nothing_transferred",
        "Nothing is transferred: v1 still has the weights from before the call.",
        Symptom(ARRIVES, reasons={Reason.NOTHING_TRANSFERRED}),
        explains=OF_NUMBERS,
    ),
    define_structural_mistake(
        "weight_not_transferred",
        "A weight of v1 keeps its old numbers: nothing is copied into it.",
        Symptom(ARRIVES, reasons={Reason.WEIGHT_NOT_TRANSFERRED}),
        explains=OF_NUMBERS,
    ),
    define_structural_mistake(
        "weight_of_another_layer",
        "A weight of v1 gets the numbers of the wrong layer.",
        Symptom(ARRIVES, reasons={Reason.ANOTHER_TRANSFERRED}),
        explains=OF_NUMBERS,
        said_by=(
            "queries_and_keys_exchanged",
            "keys_and_values_exchanged",
            "queries_and_values_exchanged",
        ),
        causes=("queries_with_queries", "keys_with_keys", "keys_averaged", "queries_averaged"),
    ),
    define_structural_mistake(
        "memory_shared",
        "The two modules share memory: writing into one of them changes the other.",
        Symptom(
            INDEPENDENT,
            kinds={Kind.VALUE, Kind.FINITE},
            without={Reason.SOURCE_GOT_NUMBERS, Reason.SOURCE_CHANGED},
        ),
        explains=(*list_properties(history), transfer.only_numbers_are_transferred),
    ),
)
