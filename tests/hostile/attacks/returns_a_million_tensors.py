"""Returns a million tensors."""


def answer(x, out):
    return (x.detach(),) * 1_000_000
