"""eval() sets the flag of the module alone: the dropout inside goes on. (named: dropout_in_evaluation)"""

import torch
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    """Let several heads attend causally, side by side, and mix what they found.

    The widths: a token comes in d_in wide and leaves d_out wide; each of the num_heads heads is
    d_out // num_heads wide. A sequence has at most context_length tokens.

    The layers: W_query, W_key and W_value, each an nn.Linear from d_in to d_out, with a bias only
    if qkv_bias; out_proj, an nn.Linear from d_out to d_out with a bias. Dropout acts on the
    attention weights.

    Raises:
        ValueError: num_heads does not divide d_out.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError(f"d_out={d_out} cannot be split evenly among num_heads={num_heads}")
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        # A buffer, so that it moves to another device together with the module.
        self.is_future: Tensor
        future = torch.ones(context_length, context_length, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("is_future", future)

    def eval(self) -> "MultiHeadAttention":
        """Set the flag."""
        self.training = False
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, d_in) to (batch, tokens, d_out); no token sees a later one."""
        batch, tokens, _ = x.shape
        per_head = (batch, tokens, self.num_heads, self.head_dim)
        # (batch, tokens, d_out) -> (batch, heads, tokens, head_dim): each head gets its own slice.
        queries = self.W_query(x).view(per_head).transpose(1, 2)
        keys = self.W_key(x).view(per_head).transpose(1, 2)
        values = self.W_value(x).view(per_head).transpose(1, 2)

        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        scores = scores.masked_fill(self.is_future[:tokens, :tokens], float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=-1))

        # Back to (batch, tokens, d_out), the heads side by side in their order.
        context = (weights @ values).transpose(1, 2).reshape(batch, tokens, self.d_out)
        output: Tensor = self.out_proj(context)
        return output
