"""The mask cannot be left out."""

import torch
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    """Let several heads attend wherever the mask allows it; return the weights as well.

    The layers, each an nn.Linear from d_model to d_model with a bias: W_q, W_k, W_v for queries,
    keys and values, and W_o for the output. Each of the num_heads heads is d_model // num_heads
    wide. There is no dropout.
    """

    def __init__(self, d_model: int = 512, num_heads: int = 8) -> None:
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Map x of shape (batch, tokens, d_model) to the output and the attention weights.

        The output has the shape of x, the weights are (batch, num_heads, tokens, tokens). Where
        the mask, broadcast to the shape of the weights, is 0 or False, a query must not attend.
        """
        batch, tokens, _ = x.shape
        per_head = (batch, tokens, self.num_heads, self.d_k)
        # (batch, tokens, d_model) -> (batch, num_heads, tokens, d_k): each head has its slice.
        q = self.W_q(x).view(per_head).transpose(1, 2)
        k = self.W_k(x).view(per_head).transpose(1, 2)
        v = self.W_v(x).view(per_head).transpose(1, 2)

        scores = q @ k.transpose(-2, -1) / self.d_k**0.5
        if mask is not None:
            # Comparing with 0 reads masks of bool, of int and of float alike.
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = torch.softmax(scores, dim=-1)

        # Back to (batch, tokens, d_model), the heads side by side in their order.
        mixed = (weights @ v).transpose(1, 2).reshape(batch, tokens, self.d_model)
        return self.W_o(mixed), weights
