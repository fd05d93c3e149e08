"""The weight is reshaped to (d_in, d_out) instead of transposed, which scrambles it. (named: weights_reshaped)"""

import torch


def linear(x, weight, bias):
    d_out, d_in = weight.shape
    return torch.matmul(x, weight.reshape(d_in, d_out)) + bias
