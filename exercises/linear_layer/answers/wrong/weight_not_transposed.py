"""The weight is used without transposing it: runs only where it is square."""


def linear(x, weight, bias):
    return x @ weight + bias
