"""Transposes the caller's weight in place: the second call with it is wrong or raises."""


def linear(x, weight, bias):
    weight.t_()
    return x @ weight + bias
