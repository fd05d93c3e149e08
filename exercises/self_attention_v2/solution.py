# %% [markdown]
# # Self-attention as a module, second version
#
# `nn.Linear` keeps the weights, and can add a bias.

# %%
import torch
from torch import nn


# %%
class SelfAttention_v2(nn.Module):
    """Scaled dot-product self-attention whose projections are linear layers."""

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        """Create the linear layers W_query, W_key and W_value.

        Each maps d_in to d_out; all three have a bias if qkv_bias is True, and none otherwise.
        """
        super().__init__()
        # BEGIN SOLUTION
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend over all tokens.

        x:      (tokens, d_in)
        returns (tokens, d_out), the context vectors
        """
        # BEGIN SOLUTION
        queries: torch.Tensor = self.W_query(x)
        keys: torch.Tensor = self.W_key(x)
        values: torch.Tensor = self.W_value(x)
        attn_scores = queries @ keys.T
        attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
        return attn_weights @ values
        # END SOLUTION
