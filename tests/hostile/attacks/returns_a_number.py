"""Returns a number."""


def answer(x, out):
    return 1.0
