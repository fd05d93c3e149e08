"""The bias is added along the tokens instead of along the outputs. (named: bias_along_tokens)"""


def linear(x, weight, bias):
    out = x @ weight.T
    return out + bias.unsqueeze(1)
