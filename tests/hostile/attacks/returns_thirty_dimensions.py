"""Returns a tensor of thirty dimensions."""


def answer(x, out):
    return x.reshape(x.shape + (1,) * 27)
