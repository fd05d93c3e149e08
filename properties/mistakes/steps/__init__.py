"""Steps of attention as people get them wrong: each stands in for one step of a `Recipe`.

    layers   from the tokens to the queries, keys and values of every head
    scores   from queries and keys to the weights
    output   from weights and values to what is returned

They say nothing about why; `properties.mistakes.catalogue` gives them names and sentences.
"""
