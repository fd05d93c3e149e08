# %% [markdown]
# # A block of GPT-2
#
# Attention and a feed-forward, each behind a norm and beside a residual. Fill in the marked places.

# %%
import torch
from torch import Tensor, nn


# %%
class GPTBlock(nn.Module):
    """Add causal multi-head attention to tokens, and then a feed-forward, each of normed tokens.

    The widths: a token comes in emb_dim wide and leaves as wide; each of the num_heads heads is
    head_dim = emb_dim // num_heads wide, and between its layers the feed-forward is 4 * emb_dim
    wide.

    The layers: norm1 and norm2, each an nn.LayerNorm of emb_dim; W_query, W_key and W_value, each
    an nn.Linear from emb_dim to emb_dim, with a bias only if qkv_bias; out_proj, an nn.Linear from
    emb_dim to emb_dim with a bias; linear1, an nn.Linear from emb_dim to 4 * emb_dim, and linear2,
    one from there back to emb_dim, both with a bias. There is no dropout.

    Raises:
        ValueError: num_heads does not divide emb_dim.
    """

    def __init__(self, emb_dim: int, num_heads: int, qkv_bias: bool = False) -> None:
        super().__init__()
        # BEGIN SOLUTION
        if emb_dim % num_heads != 0:
            raise ValueError(
                f"emb_dim={emb_dim} cannot be split evenly among num_heads={num_heads}"
            )
        self.num_heads = num_heads
        self.head_dim = emb_dim // num_heads
        self.norm1 = nn.LayerNorm(emb_dim)
        self.W_query = nn.Linear(emb_dim, emb_dim, bias=qkv_bias)
        self.W_key = nn.Linear(emb_dim, emb_dim, bias=qkv_bias)
        self.W_value = nn.Linear(emb_dim, emb_dim, bias=qkv_bias)
        self.out_proj = nn.Linear(emb_dim, emb_dim)
        self.norm2 = nn.LayerNorm(emb_dim)
        self.linear1 = nn.Linear(emb_dim, 4 * emb_dim)
        self.linear2 = nn.Linear(4 * emb_dim, emb_dim)
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, emb_dim) to the same shape; no token sees a later one."""
        # BEGIN SOLUTION
        x = x + self.attend(self.norm1(x))
        hidden = self.linear1(self.norm2(x))
        output: Tensor = x + self.linear2(nn.functional.gelu(hidden))
        return output
        # END SOLUTION

    # BEGIN SOLUTION
    def attend(self, x: Tensor) -> Tensor:
        """Let every token attend to itself and those before it: (batch, tokens, emb_dim)."""
        batch, tokens, _ = x.shape
        # (batch, tokens, emb_dim) -> (batch, heads, tokens, head_dim): each head has its slice.
        queries = self.W_query(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)
        keys = self.W_key(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)
        values = self.W_value(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)

        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        position = torch.arange(tokens, device=x.device)
        scores = scores.masked_fill(position > position[:, None], float("-inf"))
        weights = torch.softmax(scores, dim=-1)

        output: Tensor = self.out_proj((weights @ values).transpose(1, 2).flatten(2))
        return output

    # END SOLUTION
