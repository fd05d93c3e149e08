# %% [markdown]
# # Causal attention
#
# Batches, a mask that hides the future, and dropout on the attention weights.

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
        """Create the linear layers W_query, W_key and W_value, the dropout and the mask.

        Each layer maps d_in to d_out, with a bias if qkv_bias is True. Inputs will have at most
        context_length tokens. `dropout` is the probability that an attention weight is dropped.
        """
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
