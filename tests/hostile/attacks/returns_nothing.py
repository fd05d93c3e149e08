"""Returns None."""


def answer(x, out):
    return None
