"""The bias is subtracted. (named: bias_subtracted)"""


def linear(x, weight, bias):
    return x @ weight.T - bias
