import torch
from torch import nn, Tensor


class FusedAttention(nn.Module):
    def __init__(self, dim: int, n_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.d_head = dim // n_heads
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.dense = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, hidden_states: Tensor) -> Tensor:
        b, t, c = hidden_states.shape
        fused = self.query_key_value(hidden_states)
        fused = fused.view(b, t, self.n_heads, 3, self.d_head)
        q = fused[..., 0, :].transpose(1, 2)
        k = fused[..., 1, :].transpose(1, 2)
        v = fused[..., 2, :].transpose(1, 2)

        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * self.d_head ** -0.5
        future = torch.ones(t, t, dtype=torch.bool, device=q.device).triu_(1)
        scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        probs = self.drop(scores.softmax(-1))
        out = torch.einsum("bhqk,bhkd->bqhd", probs, v).reshape(b, t, c)
        return self.dense(out)
