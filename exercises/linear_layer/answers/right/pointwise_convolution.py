"""A convolution that is one step wide is a linear layer, if the vectors are its channels."""

import torch.nn.functional as F


def linear(x, weight, bias):
    columns = x.reshape(-1, x.shape[-1], 1)
    y = F.conv1d(columns, weight[:, :, None], bias)
    return y.reshape(*x.shape[:-1], len(bias))
