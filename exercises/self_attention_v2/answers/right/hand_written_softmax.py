"""A softmax by hand that subtracts each row's maximum."""

from torch import nn


class SelfAttention_v2(nn.Module):
    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    @staticmethod
    def normalise(scores):
        shifted = scores - scores.amax(dim=-1, keepdim=True)
        e = shifted.exp()
        return e / e.sum(dim=-1, keepdim=True)

    def forward(self, x):
        queries = self.W_query(x)
        keys = self.W_key(x)
        scores = queries @ keys.T / keys.shape[-1] ** 0.5
        return self.normalise(scores) @ self.W_value(x)
