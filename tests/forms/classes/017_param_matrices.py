import torch
import torch.nn as nn


class CausalAttention_v1(nn.Module):

    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def forward(self, x):
        keys = x @ self.W_key
        queries = x @ self.W_query
        values = x @ self.W_value

        attn_scores = queries @ keys.transpose(-1, -2)
        n = x.shape[-2]
        causal = torch.triu(torch.full((n, n), float("-inf"), dtype=x.dtype), diagonal=1)
        attn_weights = torch.softmax(
            attn_scores / keys.shape[-1] ** 0.5 + causal, dim=-1
        )
        return attn_weights @ values


inputs = torch.tensor(
    [[0.43, 0.15, 0.89],   # Your
     [0.55, 0.87, 0.66],   # journey
     [0.57, 0.85, 0.64],   # starts
     [0.22, 0.58, 0.33],   # with
     [0.77, 0.25, 0.10],   # one
     [0.05, 0.80, 0.55]]   # step
)
torch.manual_seed(789)
sa = CausalAttention_v1(d_in=3, d_out=2)
print(sa(inputs))
