"""Bind a class of unknown origin: find out by its behaviour which attention it computes, and how.

Theory of operation
    Names and shapes only suggest; behaviour decides. A class is constructed with small sizes that
    all differ (`constructors`), every parameter is overwritten with random numbers, and it is
    called once in each form that its signature allows (`calls`). For every way in which its
    tensors can be the weights of attention (`layouts`) the equation is computed on the same
    numbers: the hypothesis that gives the same output in float64 is the binding. It is confirmed
    with other sizes, another batch and another length. Where nothing gives the output exactly, the
    known mistakes are tried for the hypotheses that names suggest, so that wrong code binds too.

    What a class computes cannot tell what it is meant to compute: a forgotten mask is a correct
    attention to everything. Such intent comes from an exercise or an option, and is otherwise
    reported as what was found.
"""
