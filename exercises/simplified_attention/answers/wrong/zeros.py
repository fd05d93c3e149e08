"""Returns zeros of the right shape. (named: zeros_returned)"""

import torch


def simplified_attention(x):
    return torch.zeros_like(x)
