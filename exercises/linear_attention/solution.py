# %% [markdown]
# # Linear attention
#
# Two sums over the tokens so far take the place of a matrix of weights. Fill in the marked places.

# %%
from typing import Any

from torch import Tensor, nn


# %%
class LinearAttention(nn.Module):
    """Let several heads attend causally, by features of queries and keys and without a softmax.

    The widths: a token comes in d_in wide and leaves d_out wide; each of the num_heads heads is
    head_dim = d_out // num_heads wide.

    The layers: W_query, W_key and W_value, each an nn.Linear from d_in to d_out, with a bias only
    if qkv_bias; out_proj, an nn.Linear from d_out to d_out with a bias.

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
        # END SOLUTION

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Map new tokens (batch, tokens, d_in), and the state after those before, to two things.

        Returns the output, (batch, tokens, d_out), and the state for the call after this one.
        """
        # BEGIN SOLUTION
        queries, keys, values = (self.split(w(x)) for w in (self.W_query, self.W_key, self.W_value))
        queries, keys = (nn.functional.elu(t) + 1 for t in (queries, keys))

        # (batch, heads, tokens, head_dim, head_dim) and (batch, heads, tokens, head_dim)
        mixed = (keys.unsqueeze(-1) * values.unsqueeze(-2)).cumsum(dim=2)
        total = keys.cumsum(dim=2)
        if state is not None:
            mixed, total = mixed + state[0], total + state[1]

        asked = (queries.unsqueeze(-2) @ mixed).squeeze(-2)
        context = asked / (queries * total).sum(dim=-1, keepdim=True)
        output = self.out_proj(context.transpose(1, 2).flatten(2))
        return output, (mixed[:, :, -1:].clone(), total[:, :, -1:].clone())
        # END SOLUTION

    # BEGIN SOLUTION
    def split(self, t: Tensor) -> Tensor:
        """Map (batch, tokens, d_out) to (batch, heads, tokens, head_dim)."""
        return t.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    # END SOLUTION
