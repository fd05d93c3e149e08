# %% [markdown]
# # FlashAttention, forward and backward
#
# Attention in tiles of queries and keys; the backward computes the weights of each tile once more.

# %%
import torch
from torch import Tensor


# %%
def score_tile(query: Tensor, key: Tensor, first: int | None) -> Tensor:
    """Return the scaled scores of a tile, in which keys later than a query's own have -inf.

    `first` is the key at which the first query stands, counted from the tile's first key: less
    than 0 if it stands before the tile. With None, nothing is hidden.
    """
    # BEGIN SOLUTION
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    if first is None:
        return scores
    own = torch.arange(query.shape[-2], device=query.device) + first
    later = torch.arange(key.shape[-2], device=query.device) > own[:, None]
    return scores.masked_fill(later, float("-inf"))
    # END SOLUTION


# %%
class FlashAttention(torch.autograd.Function):
    """Attention whose backward computes the weights from the log-sum-exp, tile by tile.

    query:      (batch, heads, queries, head_dim)
    key, value: (batch, heads, keys, head_dim)
    """

    @staticmethod
    def forward(
        ctx, query: Tensor, key: Tensor, value: Tensor, block_size: int, causal: bool
    ) -> Tensor:
        """Return the output, and save what the backward needs."""
        # BEGIN SOLUTION
        before = key.shape[-2] - query.shape[-2]  # keys that come before the first query's own
        output, logsumexp = torch.empty_like(query), torch.empty_like(query[..., 0])
        for i in range(0, query.shape[-2], block_size):
            queries = query[..., i : i + block_size, :]
            largest = torch.full_like(queries[..., 0], float("-inf"))
            total, mixed = torch.zeros_like(largest), torch.zeros_like(queries)
            stop = before + i + queries.shape[-2] if causal else key.shape[-2]
            for j in range(0, stop, block_size):
                keys, values = key[..., j : j + block_size, :], value[..., j : j + block_size, :]
                scores = score_tile(queries, keys, before + i - j if causal else None)
                earlier, largest = largest, torch.maximum(largest, scores.amax(dim=-1))
                smaller = torch.exp(earlier - largest)
                exponentials = torch.exp(scores - largest[..., None])
                total = total * smaller + exponentials.sum(dim=-1)
                mixed = mixed * smaller[..., None] + exponentials @ values
            output[..., i : i + block_size, :] = mixed / total[..., None]
            logsumexp[..., i : i + block_size] = largest + torch.log(total)
        ctx.save_for_backward(query, key, value, output, logsumexp)
        ctx.block_size, ctx.causal = block_size, causal
        return output
        # END SOLUTION

    @staticmethod
    def backward(ctx, d_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the inputs of `forward`, and None for numbers among them."""
        # BEGIN SOLUTION
        query, key, value, output, logsumexp = ctx.saved_tensors
        block_size, causal, scale = ctx.block_size, ctx.causal, query.shape[-1] ** -0.5
        before = key.shape[-2] - query.shape[-2]
        d_query, d_key, d_value = (torch.zeros_like(t) for t in (query, key, value))
        mean = (d_output * output).sum(dim=-1)  # of each query's d_weights, by its weights
        for i in range(0, query.shape[-2], block_size):
            rows = slice(i, i + block_size)
            queries, d_outputs = query[..., rows, :], d_output[..., rows, :]
            stop = before + i + queries.shape[-2] if causal else key.shape[-2]
            for j in range(0, stop, block_size):
                columns = slice(j, j + block_size)
                keys, values = key[..., columns, :], value[..., columns, :]
                scores = score_tile(queries, keys, before + i - j if causal else None)
                weights = torch.exp(scores - logsumexp[..., rows, None])
                d_weights = d_outputs @ values.transpose(-2, -1)
                d_scores = weights * (d_weights - mean[..., rows, None]) * scale
                d_value[..., columns, :] += weights.transpose(-2, -1) @ d_outputs
                d_query[..., rows, :] += d_scores @ keys
                d_key[..., columns, :] += d_scores.transpose(-2, -1) @ queries
        return d_query, d_key, d_value, None, None
        # END SOLUTION


# %%
def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, block_size: int, causal: bool = False
) -> Tensor:
    """Let every query attend to every key, or with `causal` to those up to its own place.

    query:      (batch, heads, queries, head_dim)
    key, value: (batch, heads, keys, head_dim); with `causal`, keys >= queries
    returns     (batch, heads, queries, head_dim)
    """
    # BEGIN SOLUTION
    return FlashAttention.apply(query, key, value, block_size, causal)
    # END SOLUTION
