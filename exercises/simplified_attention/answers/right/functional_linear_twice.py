"""x xᵀ is a linear layer whose weight is x itself, and so is the average."""

import torch.nn.functional as F


def simplified_attention(x):
    weights = F.softmax(F.linear(x, x), dim=1)
    return F.linear(weights, x.T)
