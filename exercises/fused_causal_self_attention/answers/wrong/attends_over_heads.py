"""The head axis is not moved: the heads of a token attend to one another. (named: attends_over_heads)"""

from torch import Tensor, nn
from torch.nn import functional


class FusedCausalSelfAttention(nn.Module):
    def __init__(self, block_size: int, n_head: int, n_embd: int) -> None:
        super().__init__()
        self.shape = (n_head, n_embd // n_head)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x: Tensor) -> Tensor:
        parts = [p.unflatten(-1, self.shape) for p in self.c_attn(x).chunk(3, -1)]
        query, key, value = parts
        context = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.c_proj(context.flatten(2))
