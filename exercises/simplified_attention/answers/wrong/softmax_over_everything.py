"""One softmax over the whole matrix of scores: all weights together sum to one. (named: softmax_over_everything)"""

import torch


def simplified_attention(x):
    scores = x @ x.T
    weights = torch.softmax(scores.flatten(), dim=0).reshape(scores.shape)
    return weights @ x
