"""The affine map of projections, and scaled dot-product attention, as the equation is in the paper.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V

Source: Vaswani et al. 2017, "Attention Is All You Need", eq. 1 (arXiv:1706.03762).

Other code is compared with these functions, so they take no fast path. They compute in the dtype of
their input: call them with float64 to use them as an oracle. In a mask, True means "this query may
attend to this key".
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def linear(
    x: Float[Tensor, "*batch d_in"],
    weight: Float[Tensor, "d_out d_in"],
    bias: Float[Tensor, "d_out"] | None = None,
) -> Float[Tensor, "*batch d_out"]:
    """Multiply every row of x by the transposed weight and add the bias: x Wᵀ + b.

    The weight is stored (out, in), the convention of ``torch.nn.Linear``.
    """
    product = x @ weight.mT
    return product if bias is None else product + bias


def scaled_scores(
    query: Float[Tensor, "*batch q d_k"],
    key: Float[Tensor, "*batch k d_k"],
    scale: float | None = None,
) -> Float[Tensor, "*batch q k"]:
    """Compute how well each key matches each query: scale · Q Kᵀ.

    Without a given scale it is 1/√d_k, which keeps the variance of the scores at that of the
    inputs.
    """
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    return query @ key.mT * scale


def attention_weights(
    query: Float[Tensor, "*batch q d_k"],
    key: Float[Tensor, "*batch k d_k"],
    may_attend: Bool[Tensor, "*#batch #q #k"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "*batch q k"]:
    """Distribute one unit of attention over the keys that a query may attend to.

    softmax(scale · Q Kᵀ), taken over the permitted keys only; every other weight is zero. A query
    that may attend to no key gets zeros, here and in every gradient.
    """
    return masked_softmax(scaled_scores(query, key, scale), may_attend)


def masked_softmax(
    scores: Float[Tensor, "*batch q k"], may_attend: Bool[Tensor, "*#batch #q #k"] | None = None
) -> Float[Tensor, "*batch q k"]:
    """Take the softmax of scores over the permitted keys; every other weight is zero.

    A query that may attend to no key gets zeros, here and in every gradient.
    """
    if may_attend is None:
        return torch.softmax(scores, dim=-1)
    # The softmax of a row of nothing but -inf is NaN, with a NaN gradient even if the NaN is
    # overwritten afterwards. Such a row keeps its scores here, and its weights are zeroed below.
    sees_a_key = may_attend.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~may_attend & sees_a_key, -math.inf)
    return torch.softmax(scores, dim=-1).masked_fill(~may_attend, 0.0)


def softmax_with_sinks(
    scores: Float[Tensor, "*batch heads q k"],
    sinks: Float[Tensor, "heads"],
    may_attend: Bool[Tensor, "*#lead #q #k"] | None = None,
) -> Float[Tensor, "*batch heads q k+1"]:
    """Take the softmax of each row's permitted scores and of its head's sink, which comes last.

    A sink is one more score, and is never hidden. It has no key and no value, so its share is lost,
    and the other weights of a row sum to less than one.

    Sources: Miller 2023, "Attention is off by one" (a sink of 0); Xiao et al. 2023, "Efficient
    streaming language models with attention sinks" (arXiv:2309.17453); OpenAI 2025, gpt-oss, whose
    sinks are learned (arXiv:2508.10925).
    """
    if may_attend is not None:
        scores = scores.masked_fill(~may_attend, -math.inf)
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)


def scaled_dot_product_attention(
    query: Float[Tensor, "*batch q d_k"],
    key: Float[Tensor, "*batch k d_k"],
    value: Float[Tensor, "*batch k d_v"],
    may_attend: Bool[Tensor, "*#batch #q #k"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "*batch q d_v"]:
    """Average the values, each weighted by how well its key matches the query.

    softmax(scale · Q Kᵀ) V
    A query that may attend to no key gets zeros, in the output and in every gradient.

    Source: Vaswani et al. 2017, eq. 1 (arXiv:1706.03762).
    """
    return attention_weights(query, key, may_attend, scale) @ value


def causal_weights_by_renormalising(
    query: Float[Tensor, "tokens d_k"],
    key: Float[Tensor, "tokens d_k"],
) -> Float[Tensor, "tokens tokens"]:
    """Attend to all tokens, zero the future, and renormalise each row to sum to one.

    In exact arithmetic these are the causal attention weights, because the denominator of the
    softmax cancels. In floating point a row becomes 0/0 when the weights of the past underflow
    relative to those of the future; masking the scores avoids this.
    """
    weights = torch.softmax(scaled_scores(query, key), dim=-1)
    past = torch.tril(weights)
    return past / past.sum(dim=-1, keepdim=True)
