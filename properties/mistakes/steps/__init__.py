"""Faulty steps that several files of the catalogue use: each replaces one step of a `Pipeline`.

    layers   from the tokens to the queries, keys and values of every head
    scores   from queries and keys to the weights
    output   from weights and values to the returned results
    calls, cached_calls  what a call does besides, and what it does with a cache

These steps only compute; `properties.mistakes.catalogue` gives them names and sentences. A step
that belongs to one part of attention stands there, too, beside its name.
"""
