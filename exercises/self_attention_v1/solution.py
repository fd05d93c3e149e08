# %% [markdown]
# # Self-attention as a module, first version
#
# The three weight matrices become trainable parameters.

# %%
import torch
from torch import nn


# %%
class SelfAttention_v1(nn.Module):
    """Scaled dot-product self-attention whose weights are bare parameters."""

    def __init__(self, d_in: int, d_out: int) -> None:
        """Create W_query, W_key and W_value.

        Each is an nn.Parameter of shape (d_in, d_out), filled by torch.rand.
        """
        super().__init__()
        # BEGIN SOLUTION
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend over all tokens.

        x:      (tokens, d_in)
        returns (tokens, d_out), the context vectors
        """
        # BEGIN SOLUTION
        queries = x @ self.W_query
        keys = x @ self.W_key
        values = x @ self.W_value
        attn_scores = queries @ keys.T
        attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
        return attn_weights @ values
        # END SOLUTION
