"""Flattens with view, which raises for inputs that are not contiguous."""


def linear(x, weight, bias):
    flat = x.view(-1, weight.shape[1])
    out = flat @ weight.T + bias
    return out.view(*x.shape[:-1], weight.shape[0])
