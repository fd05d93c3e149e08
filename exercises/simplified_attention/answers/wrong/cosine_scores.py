"""Scores are cosines: the tokens are brought to length one before they are compared. (named: cosine_scores)"""

import torch
import torch.nn.functional as F


def simplified_attention(x):
    unit = F.normalize(x, dim=-1)
    weights = torch.softmax(unit @ unit.T, dim=-1)
    return weights @ x
