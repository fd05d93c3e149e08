"""The scale is the alpha of baddbmm, on a batch of one; projections by F.linear."""

import torch
import torch.nn.functional as F


def scaled_dot_product_attention(x, W_query, W_key, W_value):
    x = x[None]
    q, k, v = (F.linear(x, W.T) for W in (W_query, W_key, W_value))
    nothing = q.new_zeros(())
    scores = torch.baddbmm(nothing, q, k.transpose(1, 2), beta=0, alpha=1 / q.shape[2] ** 0.5)
    return torch.bmm(F.softmax(scores, dim=2), v)[0]
