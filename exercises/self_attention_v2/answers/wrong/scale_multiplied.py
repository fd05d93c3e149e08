"""Multiplies by the root of the key width instead of dividing. (named: scale_multiplied)"""

import math

import torch.nn as nn
import torch.nn.functional as F


class SelfAttention_v2(nn.Module):
    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        self.scale = math.sqrt(d_out)
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x):
        scores = self.W_query(x) @ self.W_key(x).T * self.scale
        return F.softmax(scores, dim=-1) @ self.W_value(x)
