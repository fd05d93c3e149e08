"""einsum for both products, and a softmax by hand that subtracts each row's maximum."""

import torch


def simplified_attention(x):
    scores = torch.einsum("id,jd->ij", x, x)
    e = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    weights = e / e.sum(dim=-1, keepdim=True)
    return torch.einsum("ij,jd->id", weights, x)
