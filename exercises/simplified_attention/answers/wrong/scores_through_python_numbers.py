"""Builds the scores from Python floats: the result is float32 and scores carry no gradient."""

import torch


def simplified_attention(x):
    scores = torch.tensor([[float(a.detach() @ b.detach()) for b in x] for a in x])
    weights = torch.softmax(scores, dim=-1)
    return weights @ x.float()
