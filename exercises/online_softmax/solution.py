# %% [markdown]
# # Online softmax
#
# Attention in blocks of keys: no row of scores is ever there as a whole.

# %%
import torch
from torch import Tensor


# %%
def online_attention(
    query: Tensor, key: Tensor, value: Tensor, block_size: int
) -> tuple[Tensor, Tensor]:
    """Let every query attend to every key, block_size keys at a time, in every head.

    query:      (batch, heads, queries, head_dim)
    key, value: (batch, heads, keys, head_dim)
    returns     the output, (batch, heads, queries, head_dim), and the log-sum-exp of each query's
                scaled scores, (batch, heads, queries)
    """
    # BEGIN SOLUTION
    query = query / query.shape[-1] ** 0.5
    largest = query.new_full(query.shape[:-1], float("-inf"))
    total = query.new_zeros(query.shape[:-1])
    mixed = torch.zeros_like(query)
    for start in range(0, key.shape[-2], block_size):
        keys = key[..., start : start + block_size, :]
        values = value[..., start : start + block_size, :]
        scores = query @ keys.transpose(-2, -1)
        before, largest = largest, torch.maximum(largest, scores.amax(dim=-1))
        # What was summed up so far was relative to an earlier maximum.
        smaller = torch.exp(before - largest)
        exponentials = torch.exp(scores - largest[..., None])
        total = total * smaller + exponentials.sum(dim=-1)
        mixed = mixed * smaller[..., None] + exponentials @ values
    return mixed / total[..., None], largest + torch.log(total)
    # END SOLUTION
