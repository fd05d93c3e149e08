# %% [markdown]
# # Causal self-attention through the fused kernel
#
# Scores, mask, softmax and average in one call: torch.nn.functional.scaled_dot_product_attention.
# Fill in the marked places.

# %%
import torch.nn.functional as F
from torch import Tensor, nn


# %%
class FusedCausalSelfAttention(nn.Module):
    """Causal attention by several heads, through F.scaled_dot_product_attention.

    The layers, both nn.Linear with a bias: c_attn, from n_embd to 3 * n_embd, which puts out the
    query, then the key, then the value of every head; c_proj, from n_embd to n_embd. There is no
    dropout. n_head divides n_embd.
    """

    def __init__(self, block_size: int, n_head: int, n_embd: int) -> None:
        super().__init__()
        # BEGIN SOLUTION
        self.block_size = block_size
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, n_embd) to (batch, tokens, n_embd); no token sees a later one."""
        # BEGIN SOLUTION
        batch, tokens, width = x.shape
        per_head = (batch, tokens, self.n_head, width // self.n_head)
        q, k, v = self.c_attn(x).split(width, dim=-1)
        # The kernel wants (batch, n_head, tokens, head_size).
        q = q.view(per_head).transpose(1, 2)
        k = k.view(per_head).transpose(1, 2)
        v = v.view(per_head).transpose(1, 2)

        # The default scale is the one wanted: one over the square root of the last width.
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)

        # Back to (batch, tokens, n_embd), the heads side by side in their order.
        output: Tensor = self.c_proj(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return output
        # END SOLUTION
