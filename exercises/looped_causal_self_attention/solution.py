# %% [markdown]
# # Causal self-attention, head by head
#
# No nn.Linear this time: the weights are parameters of your own, and a loop visits the heads.
# Fill in the marked places.

# %%
import torch
from torch import Tensor, nn


# %%
class Head(nn.Module):
    """One causal attention head, from tokens n_embd wide to head_size numbers each.

    The parameters, all nn.Parameter: query_W, key_W, value_W of shape (head_size, n_embd) and
    query_b, key_b, value_b of shape (head_size,). Each pair is used as x @ W.T + b.
    """

    def __init__(self, block_size: int, n_embd: int, head_size: int) -> None:
        super().__init__()
        # BEGIN SOLUTION
        # Scaled, so that a token of ordinary size gives queries and keys of ordinary size.
        scale = n_embd**-0.5
        self.query_W = nn.Parameter(torch.randn(head_size, n_embd) * scale)
        self.query_b = nn.Parameter(torch.zeros(head_size))
        self.key_W = nn.Parameter(torch.randn(head_size, n_embd) * scale)
        self.key_b = nn.Parameter(torch.zeros(head_size))
        self.value_W = nn.Parameter(torch.randn(head_size, n_embd) * scale)
        self.value_b = nn.Parameter(torch.zeros(head_size))
        # A buffer, so that it moves to another device together with the module.
        self.may_attend: Tensor
        past = torch.ones(block_size, block_size, dtype=torch.bool).tril()
        self.register_buffer("may_attend", past)
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, n_embd) to (batch, tokens, head_size)."""
        # BEGIN SOLUTION
        tokens = x.shape[1]
        query = x @ self.query_W.T + self.query_b
        key = x @ self.key_W.T + self.key_b
        value = x @ self.value_W.T + self.value_b

        scores = query @ key.transpose(-2, -1) / key.shape[-1] ** 0.5
        scores = scores.masked_fill(~self.may_attend[:tokens, :tokens], float("-inf"))
        return torch.softmax(scores, dim=-1) @ value
        # END SOLUTION


# %%
class MultiHead(nn.Module):
    """Causal attention by n_head heads, visited in a loop, their outputs mixed.

    The parameters: those of the heads, in the nn.ModuleList heads; proj_W of shape
    (n_embd, n_embd) and proj_b of shape (n_embd,), used as x @ proj_W.T + proj_b.
    """

    def __init__(self, block_size: int, n_head: int, n_embd: int) -> None:
        super().__init__()
        # BEGIN SOLUTION
        head_size = n_embd // n_head
        self.heads = nn.ModuleList(Head(block_size, n_embd, head_size) for _ in range(n_head))
        self.proj_W = nn.Parameter(torch.randn(n_embd, n_embd) * n_embd**-0.5)
        self.proj_b = nn.Parameter(torch.zeros(n_embd))
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, n_embd) to (batch, tokens, n_embd); no token sees a later one."""
        # BEGIN SOLUTION
        side_by_side = torch.cat([head(x) for head in self.heads], dim=-1)
        return side_by_side @ self.proj_W.T + self.proj_b
        # END SOLUTION
