"""Faulty steps of attention: each replaces one step of a `Pipeline`.

    layers   from the tokens to the queries, keys and values of every head
    scores   from queries and keys to the weights
    output   from weights and values to the returned results
    dropout  what dropout changes, and when
    calls, cached_calls  what a call does besides, and what it does with a cache

These steps only compute; `properties.mistakes.catalogue` gives them names and sentences.
"""
