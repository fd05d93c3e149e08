# %% [markdown]
# # Causal attention with more keys than queries
#
# The queries are those of the last tokens, and the keys and values those of all.

# %%
import torch
from torch import Tensor


# %%
def aligned_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Let every query attend to the keys up to its own place, in every head.

    The queries are the last of the tokens whose keys and values are given: the last query stands
    at the last key.

    query:      (batch, heads, queries, head_dim)
    key, value: (batch, heads, keys, head_dim), where keys >= queries
    returns     (batch, heads, queries, head_dim)
    """
    # BEGIN SOLUTION
    queries, keys = query.shape[-2], key.shape[-2]
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    position = torch.arange(keys, device=query.device)
    own = position[keys - queries :]  # where the queries stand
    scores = scores.masked_fill(position > own[:, None], float("-inf"))
    return torch.softmax(scores, dim=-1) @ value
    # END SOLUTION
