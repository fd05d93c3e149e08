# %% [markdown]
# # Gated attention
#
# What the heads give comes through a gate. Fill in the marked places.

# %%
import torch
from torch import Tensor, nn


# %%
class GatedAttention(nn.Module):
    """Let several heads attend causally; a gate multiplies each number of their output.

    The widths: a token comes in d_in wide and leaves d_out wide; each of the num_heads heads is
    head_dim = d_out // num_heads wide.

    The layers: W_query, W_key and W_value, each an nn.Linear from d_in to d_out, with a bias only
    if qkv_bias; W_gate, an nn.Linear from d_in to d_out without a bias; out_proj, an nn.Linear
    from d_out to d_out with a bias. Dropout acts on the attention weights.

    Raises:
        ValueError: num_heads does not divide d_out.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
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
        self.W_gate = nn.Linear(d_in, d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, d_in) to (batch, tokens, d_out); no token sees a later one."""
        # BEGIN SOLUTION
        batch, tokens, _ = x.shape
        # (batch, tokens, d_out) -> (batch, heads, tokens, head_dim): each head gets its own slice.
        queries = self.W_query(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)
        keys = self.W_key(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)
        values = self.W_value(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)

        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        position = torch.arange(tokens, device=x.device)
        scores = scores.masked_fill(position > position[:, None], float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=-1))

        context = (weights @ values).transpose(1, 2).flatten(2)
        gate = torch.sigmoid(self.W_gate(x))
        output: Tensor = self.out_proj(context * gate)
        return output
        # END SOLUTION
