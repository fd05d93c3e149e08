"""A pair of plain functions for the way forward and back; the Function only calls them."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tile:
    rows: slice
    columns: slice
    hidden: Tensor | None


def list_tiles(queries: int, keys: int, size: int, causal: bool, device) -> list[list[Tile]]:
    """All tiles in which something is visible, a list for each block of queries."""
    found = []
    for i in range(0, queries, size):
        own = torch.arange(i, min(i + size, queries), device=device) + keys - queries
        row = []
        for j in range(0, keys, size):
            places = torch.arange(j, min(j + size, keys), device=device)
            hidden = places > own.unsqueeze(1) if causal else None
            if hidden is None or not bool(hidden.all()):
                row.append(Tile(slice(i, i + size), slice(j, j + size), hidden))
        found.append(row)
    return found


def score(query: Tensor, key: Tensor, tile: Tile) -> Tensor:
    scores = query[..., tile.rows, :] @ key[..., tile.columns, :].mT / query.shape[-1] ** 0.5
    return scores if tile.hidden is None else scores.masked_fill(tile.hidden, -torch.inf)


def forward(query, key, value, tiles):
    """Return the output and the log-sum-exp: this first, in a pass of its own."""
    logsumexp, output = torch.empty_like(query[..., 0]), torch.zeros_like(query)
    for row in tiles:
        parts = [score(query, key, tile).logsumexp(-1) for tile in row]
        logsumexp[..., row[0].rows] = torch.stack(parts).logsumexp(0)
        for tile in row:
            weights = torch.exp(score(query, key, tile) - logsumexp[..., tile.rows, None])
            output[..., tile.rows, :] += weights @ value[..., tile.columns, :]
    return output, logsumexp


def backward(query, key, value, output, logsumexp, gradient, tiles):
    """Return the gradients of query, key and value."""
    scale = query.shape[-1] ** -0.5
    of_query, of_key, of_value = map(torch.zeros_like, (query, key, value))
    mean = torch.sum(gradient * output, dim=-1, keepdim=True)
    for tile in (tile for row in tiles for tile in row):
        rows, columns = tile.rows, tile.columns
        weights = torch.exp(score(query, key, tile) - logsumexp[..., rows, None])
        slope = gradient[..., rows, :] @ value[..., columns, :].mT - mean[..., rows, :]
        slope = weights * slope * scale
        of_query[..., rows, :] += slope @ key[..., columns, :]
        of_key[..., columns, :] += slope.mT @ query[..., rows, :]
        of_value[..., columns, :] += weights.mT @ gradient[..., rows, :]
    return of_query, of_key, of_value


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, size, causal):
        ctx.tiles = list_tiles(query.shape[2], key.shape[2], size, causal, query.device)
        output, logsumexp = forward(query, key, value, ctx.tiles)
        ctx.save_for_backward(query, key, value, output, logsumexp)
        return output

    @staticmethod
    def backward(ctx, gradient):
        return *backward(*ctx.saved_tensors, gradient, ctx.tiles), None, None


def flash_attention(query, key, value, block_size, causal=False):
    return Attention.apply(query, key, value, block_size, causal)
