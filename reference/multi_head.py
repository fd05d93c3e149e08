"""Multi-head attention: project, split, attend, merge, project.

    MultiHead(x) = Concat(head_1, …, head_h) W_o    head_i = Attention(x W_q,i, x W_k,i, x W_v,i)

Source: Vaswani et al. 2017, section 3.2.2 (arXiv:1706.03762).

One head without an output projection is plain self-attention, so every attention module is compared
with this one function, with a mask or without.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headcheck.reference.attention import linear, masked_softmax, scaled_scores, softmax_with_sinks
from headcheck.reference.variant import PLAIN, Variant, linear_shares, share_heads, split_maps


@dataclass(frozen=True, eq=False)
class Parameters:
    """The weights of multi-head attention, in the layout of ``torch.nn.Linear``: (out, in).

    The heads are consecutive blocks of rows in W_q, W_k and W_v, and of columns in W_o. If W_k and
    W_v have fewer rows, several heads share each block. `sinks` are scores without keys or values,
    one for each head: they take a share of the weights. `W_gate` makes a gate of each token. The
    gate multiplies the output of the heads for this token: number by number, or head by head if
    `W_gate` has a row for each head. `lambdas` has one number for each head, the factor of its
    second softmax, which differential attention subtracts from its first. `W_down` makes a latent
    of each token, and W_k and W_v then read the latent instead of the token. `W_qr` makes further
    coordinates of each head's queries, and `W_kr` those of one key that all heads share; positions
    rotate only these coordinates. Latents may also be without these two. `W_rel` has a number for
    each bucket of distances and each head, which is added to scores. `gain_q` and `gain_k`, with
    `shift_q` and `shift_k`, belong to the norms of queries and keys: one number for each coordinate
    of a head, of each half of it if there are `lambdas`, or, with norms over whole projections, for
    each row of `W_q` and `W_k`. `gain_heads` and `shift_heads` belong to the norm of what heads
    give: one number for each coordinate of a head, or of all heads. In a block, `gain_in` and
    `shift_in` belong to the norm of its tokens before attention, and `gain_ff` and `shift_ff` to
    the norm before the feed-forward, whose layers are `W_1` and `W_2`. None means absent: a
    projection without bias, attention without an output projection.
    """

    W_q: Float[Tensor, "d_out d_in"]
    W_k: Float[Tensor, "d_kv d_read"]
    W_v: Float[Tensor, "d_kv d_read"]
    b_q: Float[Tensor, "d_out"] | None = None
    b_k: Float[Tensor, "d_kv"] | None = None
    b_v: Float[Tensor, "d_kv"] | None = None
    W_o: Float[Tensor, "d_out d_out"] | None = None
    b_o: Float[Tensor, "d_out"] | None = None
    sinks: Float[Tensor, "heads"] | None = None
    W_gate: Float[Tensor, "d_gate d_in"] | None = None
    b_gate: Float[Tensor, "d_gate"] | None = None
    lambdas: Float[Tensor, "heads"] | None = None
    gain_q: Float[Tensor, "d_gain"] | None = None
    gain_k: Float[Tensor, "d_gain_k"] | None = None
    shift_q: Float[Tensor, "d_gain"] | None = None
    shift_k: Float[Tensor, "d_gain_k"] | None = None
    W_down: Float[Tensor, "d_latent d_in"] | None = None
    W_qr: Float[Tensor, "d_turned d_in"] | None = None
    W_kr: Float[Tensor, "rope_dim d_in"] | None = None
    W_rel: Float[Tensor, "buckets heads"] | None = None
    gain_heads: Float[Tensor, "d_gain_heads"] | None = None
    shift_heads: Float[Tensor, "d_gain_heads"] | None = None
    gain_in: Float[Tensor, "d_in"] | None = None
    shift_in: Float[Tensor, "d_in"] | None = None
    gain_ff: Float[Tensor, "d_in"] | None = None
    shift_ff: Float[Tensor, "d_in"] | None = None
    W_1: Float[Tensor, "d_hidden d_in"] | None = None
    b_1: Float[Tensor, "d_hidden"] | None = None
    W_2: Float[Tensor, "d_in d_hidden"] | None = None
    b_2: Float[Tensor, "d_in"] | None = None

    def __post_init__(self) -> None:
        if self.b_o is not None and self.W_o is None:
            raise ValueError("Parameters: b_o without W_o; give both, or b_o=None")
        if (self.W_qr is None) != (self.W_kr is None):
            raise ValueError("Parameters: W_qr and W_kr belong together; give both or none")
        if (self.W_1 is None) != (self.W_2 is None):
            raise ValueError("Parameters: W_1 and W_2 belong together; give both or none")

    def get_norm(self, role: str) -> tuple[Tensor | None, Tensor | None]:
        """Return the gain and the shift of the norm of queries, "q", or of keys, "k"."""
        return (self.gain_q, self.shift_q) if role == "q" else (self.gain_k, self.shift_k)

    def items(self) -> Iterator[tuple[str, Tensor]]:
        """Yield name and tensor of every parameter that is present, in the order of the fields."""
        for name in _NAMES:
            tensor: Tensor | None = getattr(self, name)
            if tensor is not None:
                yield name, tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> "Parameters":
        """Return the parameters with `change` applied to every tensor that is present."""
        return Parameters(**{name: change(tensor) for name, tensor in self.items()})


_NAMES = tuple(field.name for field in fields(Parameters))


@dataclass(frozen=True, eq=False)
class MultiHeadResult:
    """All intermediate results of multi-head attention, and its output."""

    projected: tuple[Tensor, Tensor, Tensor]
    """queries, keys and values as the layers return them"""
    query: Float[Tensor, "*maps heads tokens width"]
    """the queries of every head after positions, with the coordinates that rotate beside each head;
    in linear attention their features. Keys and values are laid out alike, and repeated for every
    head if heads share them. Differential attention has one more axis in front, for the two halves
    of each head"""
    key: Float[Tensor, "*maps heads keys width"]
    value: Float[Tensor, "*batch heads keys head_dim"]
    scores: Float[Tensor, "*maps heads tokens keys"]
    """the scores after scale and bias, before any mask; in linear attention products of features"""
    weights: Float[Tensor, "*batch heads tokens keys"]
    """the weights before dropout"""
    context: Float[Tensor, "*batch tokens d_out"]
    """the heads' outputs side by side, after a norm and a gate if there are any, before W_o"""
    output: Float[Tensor, "*batch tokens d_out"]
    lost: Float[Tensor, "*batch heads tokens 1"] | None = None
    """the weights of the sinks, if there are any: one minus the sum of the other weights"""
    gate: Float[Tensor, "*batch tokens d_out"] | None = None
    """the input to the gate's sigmoid, if there is a gate"""
    maps: Float[Tensor, "2 *batch heads tokens keys"] | None = None
    """the two softmaxes of differential attention, whose difference the weights are"""
    bias: Float[Tensor, "heads tokens keys"] | None = None
    """the learned numbers that were added to scores, if there are any"""

    @property
    def softmaxes(self) -> Float[Tensor, "*maps heads tokens keys"]:
        """The softmax of the scores: the weights, or the two maps whose difference they are."""
        return self.weights if self.maps is None else self.maps

    @property
    def logsumexp(self) -> Float[Tensor, "*batch heads tokens"]:
        """The log-sum-exp of each query's scores, over all keys."""
        return torch.logsumexp(self.scores, dim=-1)


def split_heads(
    t: Float[Tensor, "*batch tokens d"], heads: int
) -> Float[Tensor, "*batch {heads} tokens d//{heads}"]:
    """Cut the last dimension into one consecutive block per head.

    Raises ValueError when the heads do not divide it.
    """
    width = t.shape[-1]
    if heads < 1 or width % heads:
        raise ValueError(
            f"split_heads: {heads} heads do not divide a width of {width}; "
            "choose a number of heads that does"
        )
    return t.reshape(*t.shape[:-1], heads, width // heads).transpose(-3, -2)


def merge_heads(
    t: Float[Tensor, "*batch heads tokens head_dim"],
) -> Float[Tensor, "*batch tokens heads*head_dim"]:
    """Lay the heads side by side again: the inverse of split_heads."""
    return t.transpose(-3, -2).flatten(-2)


def multi_head_attention(
    x: Float[Tensor, "*batch tokens d_in"],
    parameters: Parameters,
    heads: int,
    may_attend: Bool[Tensor, "*#lead #tokens #keys"] | None = None,
    scale: float | None = None,
    kept: Float[Tensor, "*#lead #tokens #keys"] | None = None,
    keys_from: Float[Tensor, "*batch others d_context"] | None = None,
    values_from: Float[Tensor, "*batch others d_context"] | None = None,
    variant: Variant = PLAIN,
    added: Float[Tensor, "*#lead #tokens #keys"] | None = None,
) -> MultiHeadResult:
    """Let every head attend on its own part of the projected tokens, then mix their outputs.

    The mask broadcasts to the shape of the weights. The default scale is 1/√head_dim. In training,
    `kept` holds the factors that dropout has drawn for each weight: 0 or 1/(1 - rate). If other
    tokens are given, keys and values are projected from them: cross-attention. Where positions
    count, queries are the last of these tokens. `added` is added to the scores after all other
    steps. A gate is the sigmoid of x W_gateᵀ + b_gate, and multiplies the merged heads, number by
    number or head by head (Qiu et al. 2025, "Gated attention for large language models",
    arXiv:2505.06708, section 3). Norms come before positions, and are over each head, over each
    half of a head, or over a whole projection, as the variant says. In differential attention each
    head halves its queries and keys, positions rotate each half like a head, and the weights are
    the softmax of the first halves minus lambda times that of the second (Ye et al. 2024,
    "Differential Transformer", arXiv:2410.05258, eq. 1; here lambda is a parameter). A norm of what
    heads give comes before the gate. With latents, keys and values are made of one latent for each
    token. Queries and keys have a part that rotates, beside each head's own part, which does not
    (DeepSeek-AI 2024, "DeepSeek-V2", arXiv:2405.04434, section 2.1; here there are none of the
    norms of its code, and queries are not compressed). In linear attention weights are proportional
    to products of features, without a softmax (Katharopoulos et al. 2020, "Transformers are RNNs",
    arXiv:2006.16236, eq. 5), and the scale has no effect. A token that may attend to nothing has a
    context of zeros, so its output is b_o.
    Raises ValueError when the heads do not divide d_out, or cannot share keys and values evenly.
    """
    p = parameters
    keys_from = x if keys_from is None else keys_from
    projected = project(x, p, keys_from, x if values_from is None else values_from)
    query, key, value = split_shared_heads(projected, heads)
    query = variant.normalise(query, *p.get_norm("q"))
    key = variant.normalise(key, *p.get_norm("k"))
    query, key = append_beside(query, key, project_beside(x, p, keys_from))
    if p.lambdas is not None:
        query, key = split_maps(query), split_maps(key)
    queries, keys = query.shape[-2], key.shape[-2]
    query, key = variant.stand_last(queries, keys).place(query), variant.place(key)
    query, key = variant.find_features(query), variant.find_features(key)
    scores = variant.adjust(scaled_scores(query, key, scale), p.W_rel)
    scores = scores if added is None else scores + added
    weights, lost = _compute_weights(scores, may_attend, p.sinks, variant)
    maps = None
    if p.lambdas is not None:
        maps, weights = weights, weights[0] - p.lambdas[:, None, None] * weights[1]
    context = leave_heads((weights if kept is None else weights * kept) @ value, p, variant)
    gate = None if p.W_gate is None else ask_gate(x, p)
    context = context if gate is None else context * torch.sigmoid(gate)
    output = context if p.W_o is None else linear(context, p.W_o, p.b_o)
    bias = None
    if variant.relative is not None and p.W_rel is not None:
        bias = variant.relative.bias(p.W_rel, scores)
    asked = query, key, value, scores, weights, context, output, lost, gate, maps, bias
    return MultiHeadResult(projected, *asked)


def project(
    x: Float[Tensor, "*batch tokens d_in"],
    p: Parameters,
    keys_from: Float[Tensor, "*batch others d_context"],
    values_from: Float[Tensor, "*batch others d_context"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values of all heads side by side, with latents if there are any."""
    if p.W_down is not None:
        keys_from, values_from = linear(keys_from, p.W_down), linear(values_from, p.W_down)
    return (
        linear(x, p.W_q, p.b_q),
        linear(keys_from, p.W_k, p.b_k),
        linear(values_from, p.W_v, p.b_v),
    )


def project_beside(
    x: Float[Tensor, "*batch tokens d_in"],
    p: Parameters,
    keys_from: Float[Tensor, "*batch others d_context"],
) -> tuple[Tensor, Tensor] | None:
    """Return the rotating parts of all heads' queries, side by side, and of keys; None without."""
    if p.W_qr is None or p.W_kr is None:
        return None
    return linear(x, p.W_qr), linear(keys_from, p.W_kr)


def append_beside(
    query: Float[Tensor, "*batch heads tokens own"],
    key: Float[Tensor, "*batch heads keys own"],
    beside: tuple[Tensor, Tensor] | None,
) -> tuple[Tensor, Tensor]:
    """Append rotating parts to each head's queries and keys; all heads share the part of keys."""
    if beside is None:
        return query, key
    asked, shared = split_heads(beside[0], query.shape[-3]), beside[1].unsqueeze(-3)
    shared = shared.expand(*key.shape[:-1], shared.shape[-1])
    return torch.cat([query, asked], dim=-1), torch.cat([key, shared], dim=-1)


def leave_heads(
    t: Float[Tensor, "*batch heads tokens head_dim"], p: Parameters, variant: Variant
) -> Float[Tensor, "*batch tokens heads*head_dim"]:
    """Norm what heads give, if the variant says so, and lay it side by side."""
    if variant.head_norm is not None:
        t = variant.head_norm.apply(t, p.gain_heads, p.shift_heads)
    return merge_heads(t)


def ask_gate(x: Float[Tensor, "*batch tokens d_in"], p: Parameters) -> Tensor:
    """Return the input to each number's sigmoid gate; the numbers of a head may share one."""
    assert p.W_gate is not None, "there is a gate"
    asked = linear(x, p.W_gate, p.b_gate)
    return asked.repeat_interleave(len(p.W_q) // len(p.W_gate), dim=-1)


def _compute_weights(
    scores: Tensor, may_attend: Tensor | None, sinks: Tensor | None, variant: Variant
) -> tuple[Tensor, Tensor | None]:
    """Return the weights of the keys, and those of the sinks if there are any."""
    if variant.features:
        return linear_shares(scores, may_attend, variant.feature_epsilon), None
    if sinks is None:
        return masked_softmax(scores, may_attend), None
    weights = softmax_with_sinks(scores, sinks, may_attend)
    return weights[..., :-1], weights[..., -1:]


def split_shared_heads(
    projected: tuple[Tensor, Tensor, Tensor], heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Split queries, keys and values into heads, and repeat keys and values for heads that share.

    Raises ValueError when the heads do not divide the width, or cannot share evenly.
    """
    query = split_heads(projected[0], heads)
    head_dim = query.shape[-1]
    key, value = (
        share_heads(split_heads(t, max(1, t.shape[-1] // head_dim)), heads) for t in projected[1:]
    )
    return query, key, value
