"""The weight is used without transposing it: runs only where it is square. (named: weights_not_transposed)"""


def linear(x, weight, bias):
    return x @ weight + bias
