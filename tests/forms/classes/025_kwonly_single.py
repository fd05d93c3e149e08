import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, *, dim_q: int, dim_kv: int, dim_head: int, bias: bool = False):
        super().__init__()
        self.linear_q = nn.Linear(dim_q, dim_head, bias=bias)
        self.linear_k = nn.Linear(dim_kv, dim_head, bias=bias)
        self.linear_v = nn.Linear(dim_kv, dim_head, bias=bias)
        self.scale = dim_head ** -0.5

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        q = self.linear_q(x) * self.scale
        k = self.linear_k(context)
        v = self.linear_v(context)
        return torch.einsum("bij,bjd->bid", torch.einsum("bid,bjd->bij", q, k).softmax(-1), v)
