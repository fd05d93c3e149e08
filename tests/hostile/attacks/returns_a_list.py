"""Returns a list of lists."""


def answer(x, out):
    return x.tolist()
