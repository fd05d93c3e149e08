"""Returns its input. (named: input_returned)"""


def simplified_attention(x):
    return x
