"""Bind a class of unknown origin: find out from its behaviour which attention it computes.

Theory of operation
    Names and shapes only suggest; behaviour decides. A class is constructed with small sizes that
    all differ (`constructors`), every parameter is overwritten with random numbers, and it is
    called once in each form that its signature allows (`calls`). For every way in which its
    tensors can be the weights of attention (`layouts`) the equation is computed on the same
    numbers: the hypothesis that gives the same output in float64 is the binding. It is confirmed
    with other sizes, another batch and another length. If no hypothesis gives the output exactly,
    the known mistakes are tried with the hypotheses that names suggest, so that wrong code can also
    be bound.

    Behaviour does not show intent: a forgotten mask is a correct attention to everything. The
    intent comes from an exercise or an option. Without either, headcheck reports the attention that
    it found.
"""
