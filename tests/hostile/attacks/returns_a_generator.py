"""Returns a generator that never ends."""


def answer(x, out):
    return iter(int, 1)
