# %% [markdown]
# # Several heads, side by side
#
# Run independent causal attentions on the same input and put their outputs next to each other.
# You need the causal attention of the exercise before: write it (again) here.

# %%
import torch
from torch import nn


# %%
class CausalAttention(nn.Module):
    """One head of self-attention in which no token sees a later one."""

    mask: torch.Tensor

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False
    ) -> None:
        """Create the linear layers W_query, W_key and W_value, the dropout and the mask."""
        super().__init__()
        # BEGIN SOLUTION
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        future = torch.ones(context_length, context_length, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("mask", future)
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend over the tokens up to and including one's own.

        x:      (batch, tokens, d_in), with 1 <= tokens <= context_length
        returns (batch, tokens, d_out), the context vectors
        """
        # BEGIN SOLUTION
        tokens = x.shape[1]
        queries: torch.Tensor = self.W_query(x)
        keys: torch.Tensor = self.W_key(x)
        values: torch.Tensor = self.W_value(x)

        attn_scores = queries @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5
        attn_scores = attn_scores.masked_fill(self.mask[:tokens, :tokens], -torch.inf)
        attn_weights: torch.Tensor = self.dropout(torch.softmax(attn_scores, dim=-1))
        return attn_weights @ values
        # END SOLUTION


# %%
class MultiHeadAttentionWrapper(nn.Module):
    """Independent causal attentions on the same input, their outputs concatenated."""

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
    ) -> None:
        """Create self.heads, an nn.ModuleList of num_heads causal attentions.

        Each head maps d_in to d_out and has its own weights.
        """
        super().__init__()
        # BEGIN SOLUTION
        self.heads = nn.ModuleList(
            CausalAttention(d_in, d_out, context_length, dropout, qkv_bias)
            for _ in range(num_heads)
        )
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Concatenate the heads' outputs, in the order of self.heads.

        x:      (batch, tokens, d_in), with 1 <= tokens <= context_length
        returns (batch, tokens, d_out * num_heads)
        """
        # BEGIN SOLUTION
        return torch.cat([head(x) for head in self.heads], dim=-1)
        # END SOLUTION
