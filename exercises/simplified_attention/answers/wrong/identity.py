"""Returns its input."""


def simplified_attention(x):
    return x
