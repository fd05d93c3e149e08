"""Style: keyword arguments, causal only if there is more than one token."""

from torch import Tensor, nn
from torch.nn import functional


class FusedCausalSelfAttention(nn.Module):
    def __init__(self, block_size: int, n_head: int, n_embd: int) -> None:
        super().__init__()
        self.shape = (n_head, n_embd // n_head)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x: Tensor) -> Tensor:
        t = x.shape[1]
        parts = [p.unflatten(-1, self.shape).transpose(1, 2) for p in self.c_attn(x).chunk(3, -1)]
        query, key, value = parts
        context = functional.scaled_dot_product_attention(
            query=query, key=key, value=value, dropout_p=0.0, is_causal=t > 1
        )
        return self.c_proj(context.transpose(1, 2).flatten(2))
