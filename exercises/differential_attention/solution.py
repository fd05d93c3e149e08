# %% [markdown]
# # Differential attention
#
# What two softmaxes of a head have in common is subtracted. Fill in the marked places.

# %%
import torch
from torch import Tensor, nn


# %%
class DifferentialAttention(nn.Module):
    """Let several heads attend causally, each by the difference of two softmaxes.

    The widths: a token comes in d_in wide and leaves d_out wide; each of the num_heads heads is
    head_dim = d_out // num_heads wide, an even number.

    The layers: W_query, W_key and W_value, each an nn.Linear from d_in to d_out, with a bias only
    if qkv_bias; out_proj, an nn.Linear from d_out to d_out with a bias. lambda_, an nn.Parameter of
    shape (num_heads,) that starts from 0.8.

    Raises:
        ValueError: num_heads does not divide d_out.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
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
        self.out_proj = nn.Linear(d_out, d_out)
        self.lambda_ = nn.Parameter(torch.full((num_heads,), 0.8))
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, d_in) to (batch, tokens, d_out); no token sees a later one."""
        # BEGIN SOLUTION
        batch, tokens, _ = x.shape
        half = self.head_dim // 2
        # (batch, tokens, d_out) -> (batch, heads, 2, tokens, half): each head has two halves.
        queries = (
            self.W_query(x).view(batch, tokens, self.num_heads, 2, half).permute(0, 2, 3, 1, 4)
        )
        keys = self.W_key(x).view(batch, tokens, self.num_heads, 2, half).permute(0, 2, 3, 1, 4)
        values = self.W_value(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)

        scores = queries @ keys.transpose(-2, -1) / half**0.5
        position = torch.arange(tokens, device=x.device)
        scores = scores.masked_fill(position > position[:, None], float("-inf"))
        first, second = torch.softmax(scores, dim=-1).unbind(dim=2)
        # (num_heads,) -> (num_heads, 1, 1): one number for all queries and keys of a head.
        weights = first - self.lambda_[:, None, None] * second

        context = (weights @ values).transpose(1, 2).flatten(2)
        output: Tensor = self.out_proj(context)
        return output
        # END SOLUTION
