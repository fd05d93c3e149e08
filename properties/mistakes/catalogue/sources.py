"""Mistakes in cross-attention: wrong inputs of queries, keys and values."""

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import define_mistake, require
from headcheck.properties.mistakes.steps import layers

SOURCES = require(
    Capability.CROSS,
    define_mistake(
        "keys_and_values_from_queries_input",
        "Keys and values are made from the first input: the second one is not used.",
    ).simulated_by(see=layers.sources(0, 0, 0)),
    define_mistake(
        "keys_from_queries_input",
        "The keys are made from the first input; they should be made from the second.",
        "projection:(?i)k | projection",
    ).simulated_by(see=layers.sources(0, 0, 2)),
    define_mistake(
        "values_from_queries_input",
        "The values are made from the first input; they should be made from the second.",
        "projection:(?i)v | projection",
    ).simulated_by(see=layers.sources(0, 1, 0)),
    define_mistake(
        "queries_from_keys_input",
        "The queries are made from the second input: the first input is not used.",
        "projection:(?i)q | projection",
    ).simulated_by(see=layers.sources(1, 1, 2)),
    define_mistake(
        "inputs_exchanged",
        "The inputs are exchanged: the second one attends to the first.",
    ).simulated_by(see=layers.sources(1, 0, 0)),
    define_mistake(
        "queries_and_keys_exchange_inputs",
        "The keys are made from the first input and the queries from the second, not vice versa.",
        "projection:(?i)q | projection",
    ).simulated_by(see=layers.sources(1, 0, 2)),
    define_mistake(
        "queries_and_values_exchange_inputs",
        "The values are made of the first input, and the queries of what it attends to.",
        "projection:(?i)q | projection",
    ).simulated_by(see=layers.sources(2, 1, 0)),
    define_mistake(
        "keys_cut_to_number_of_queries",
        "Only as many keys and values are used as there are queries; the others are left out.",
    ).simulated_by(see=layers.cut_to_length_of_x),
)
