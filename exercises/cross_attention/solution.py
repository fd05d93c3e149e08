# %% [markdown]
# # Cross-attention
#
# The tokens of one sequence read those of another, in several heads. Fill in the marked places.

# %%
import torch
from torch import Tensor, nn


# %%
class CrossAttention(nn.Module):
    """Let the tokens of x attend to those of context, in several heads side by side.

    The widths: a token comes in d_in wide and leaves d_out wide; each of the num_heads heads is
    d_out // num_heads wide.

    The layers: W_query, W_key and W_value, each an nn.Linear from d_in to d_out, with a bias only
    if qkv_bias; out_proj, an nn.Linear from d_out to d_out with a bias. Dropout acts on the
    attention weights.

    Raises:
        ValueError: num_heads does not divide d_out.
    """

    def __init__(
        self, d_in: int, d_out: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        # BEGIN SOLUTION
        if d_out % num_heads != 0:
            raise ValueError(f"d_out={d_out} cannot be split evenly among num_heads={num_heads}")
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        # END SOLUTION

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """Map (batch, tokens, d_in) to (batch, tokens, d_out); x attends to context."""
        # BEGIN SOLUTION
        batch, tokens, _ = x.shape
        others = context.shape[1]
        heads = (self.num_heads, self.head_dim)
        # (batch, length, d_out) -> (batch, heads, length, head_dim), each with its own length.
        queries = self.W_query(x).view(batch, tokens, *heads).transpose(1, 2)
        keys = self.W_key(context).view(batch, others, *heads).transpose(1, 2)
        values = self.W_value(context).view(batch, others, *heads).transpose(1, 2)

        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        weights = self.dropout(torch.softmax(scores, dim=-1))

        # Back to (batch, tokens, d_out), the heads side by side in their order.
        mixed = (weights @ values).transpose(1, 2).flatten(2)
        output: Tensor = self.out_proj(mixed)
        return output
        # END SOLUTION
