# %% [markdown]
# # Grouped-query attention
#
# Neighbouring heads share keys and values, so that there are fewer of these to keep. Fill in the
# marked places.

# %%
import torch
from torch import Tensor, nn


# %%
class GroupedQueryAttention(nn.Module):
    """Let several heads attend causally, whose neighbours share keys and values.

    The widths: a token comes in d_in wide and leaves d_out wide; each of the num_heads heads is
    head_dim = d_out // num_heads wide. Head h uses number h // group of the num_kv_heads heads of
    keys and of values, where group = num_heads // num_kv_heads.

    The layers: W_query, an nn.Linear from d_in to d_out; W_key and W_value, each an nn.Linear from
    d_in to num_kv_heads * head_dim; these three have a bias only if qkv_bias; out_proj, an
    nn.Linear from d_out to d_out with a bias. Dropout acts on the attention weights.

    Raises:
        ValueError: num_heads does not divide d_out, or num_kv_heads does not divide num_heads.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        dropout: float,
        num_heads: int,
        num_kv_heads: int,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        # BEGIN SOLUTION
        if d_out % num_heads != 0:
            raise ValueError(f"d_out={d_out} cannot be split evenly among num_heads={num_heads}")
        if num_heads % num_kv_heads != 0:
            raise ValueError(
                f"num_heads={num_heads} cannot share num_kv_heads={num_kv_heads} evenly"
            )
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, d_in) to (batch, tokens, d_out); no token sees a later one."""
        # BEGIN SOLUTION
        batch, tokens, _ = x.shape
        # (batch, tokens, d_out) -> (batch, heads, tokens, head_dim): each head gets its own slice.
        queries = self.W_query(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)
        keys = self.W_key(x).view(batch, tokens, self.num_kv_heads, self.head_dim).transpose(1, 2)
        values = (
            self.W_value(x).view(batch, tokens, self.num_kv_heads, self.head_dim).transpose(1, 2)
        )
        # Head h uses number h // group of the keys and values.
        group = self.num_heads // self.num_kv_heads
        keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)

        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        position = torch.arange(tokens, device=x.device)
        scores = scores.masked_fill(position > position[:, None], float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=-1))

        context = (weights @ values).transpose(1, 2).flatten(2)
        output: Tensor = self.out_proj(context)
        return output
        # END SOLUTION
