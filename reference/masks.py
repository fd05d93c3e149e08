"""Masks: which tokens may attend to which.

A mask is a bool tensor that broadcasts to (*batch, queries, keys); True means "may attend".
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

DeviceLike = torch.device | str | None


def causal_mask(tokens: int, *, device: DeviceLike = None) -> Bool[Tensor, "{tokens} {tokens}"]:
    """Let every token see itself and the past: row t sees keys 0..t."""
    return causal_lower_right_mask(tokens, tokens, device=device)


def sliding_window_mask(
    tokens: int,
    width: int,
    *,
    both_sides: bool = False,
    keys: int | None = None,
    device: DeviceLike = None,
) -> Bool[Tensor, "{tokens} keys"]:
    """Let every token see itself and the width - 1 tokens before it: row t sees t-width+1..t.

    With both sides it also sees as many tokens after it. A width of `tokens` or more is the causal
    mask, or hides nothing. If there are more keys than tokens, `keys` is their number, and the
    tokens are the last of them. Raises ValueError for a width below 1, with which a token would not
    even see itself.
    """
    if width < 1:
        raise ValueError(
            f"sliding_window_mask: width is {width}; give 1 or more (1 sees only the token itself)"
        )
    position = torch.arange(tokens if keys is None else keys, device=device)
    distance = position[len(position) - tokens :, None] - position[None, :]
    if both_sides:
        distance = distance.abs()
    return (distance >= 0) & (distance < width)


def padding_mask(
    lengths: Sequence[int] | Int[Tensor, "batch"],
    tokens: int,
    *,
    device: DeviceLike = None,
) -> Bool[Tensor, "batch 1 1 {tokens}"]:
    """Hide the padding at the end of each sequence: sequence b shows keys 0..lengths[b]-1 only.

    The two dimensions of one stand for heads and queries, so the mask broadcasts to (batch, heads,
    queries, keys). Drop the first of these dimensions, `mask[:, 0]`, for scores without heads. A
    sequence of length 0 is hidden completely. If lengths are given as a tensor, the mask is on
    their device.
    """
    length = torch.as_tensor(lengths, device=device)
    position = torch.arange(tokens, device=length.device)
    return position < length[:, None, None, None]


def causal_lower_right_mask(
    queries: int, keys: int, *, device: DeviceLike = None
) -> Bool[Tensor, "{queries} {keys}"]:
    """Align the causal mask with the last query and the last key, as for decoding with a cache.

    The queries are the newest of the tokens whose keys are given: row i sees keys
    0..keys-queries+i. With more queries than keys, the first rows see nothing.
    """
    seen = torch.arange(queries, device=device) + (keys - queries)
    return torch.arange(keys, device=device) <= seen[:, None]


def to_bool_mask(mask: Shaped[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
    """Read a bool, integer or float mask in which anything but zero means "may attend".

    Masks that are added to the scores (0 and -inf) follow the opposite convention: convert such
    masks with ``mask == 0``.
    """
    return mask != 0
