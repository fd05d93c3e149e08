"""The steps that today's models add to the plain equation.

    norm         a norm of queries and keys, of each head or of all heads together, before positions
    positions    queries and keys rotated by their positions, or scores lowered with the distance,
                 or learned numbers of the pairs added: see `reference.relative`
    softcap      a limit of scores on both sides
    block        norms, residuals and a feed-forward around attention: see `reference.block`
    features     positive features of queries and keys, whose products replace the softmax
    head_norm    a norm of what heads give, before the gate and the output layer

A window hides tokens that lie too far back: see `reference.masks.sliding_window_mask`. Heads that
share keys and values need no option: they have fewer rows of `W_k` and `W_v` than of `W_q`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headcheck.reference.relative import LearnedBias
from headcheck.reference.rotary_scaling import RotaryScaling

DeviceLike = torch.device | str | None


@dataclass(frozen=True, slots=True)
class BlockSteps:
    """The steps of a block around its attention, without its residuals."""

    norm: str
    """the norm of tokens: "rms", or "layer", which subtracts the mean first"""
    epsilon: float
    """the number that the norm adds to the mean square, or to the variance"""
    activation: str
    """the activation between the layers of the feed-forward: "gelu", or "gelu_tanh", which
    approximates it"""

    @property
    def norms(self) -> "Variant":
        """A variant whose norm of queries and keys is this norm of tokens."""
        return Variant(norm=self.norm, epsilon=self.epsilon)


@dataclass(frozen=True, slots=True)
class HeadNorm:
    """The norm of what heads give, before it goes through the output layer.

    Sources: of each head, Ye et al. 2024, "Differential Transformer", eq. 3 (arXiv:2410.05258); of
    all heads, Wang et al. 2022, "Foundation Transformers", section 2 (arXiv:2210.06423).
    """

    kind: str
    """the norm: "rms", or "layer", which subtracts the mean first"""
    over: str
    """the numbers over which it averages: those of a "head", or of the whole "projection", in which
    all heads lie side by side"""
    epsilon: float
    """the number that the norm adds to the mean square, or to the variance"""
    factor: float = 1.0
    """the number that multiplies the result"""

    @property
    def norms(self) -> "Variant":
        """A variant whose norm of queries and keys is this norm."""
        return Variant(norm=self.kind, norm_over=self.over, epsilon=self.epsilon)

    def apply(self, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
        """Return what heads give, normed and multiplied."""
        return self.factor * self.norms.normalise(t, gain, shift)


@dataclass(frozen=True, slots=True)
class Variant:
    """The steps that an attention has in addition to the plain ones; none by default."""

    rotary: bool = False
    """whether positions rotate queries and keys"""
    alibi: bool = False
    """whether scores fall with the distance"""
    two_sequences: bool = False
    """whether the slopes of this fall are of two sequences: see `alibi_slopes`"""
    base: float = 10_000.0
    """the base of rotary angles: pair i rotates by base^(-2i/head_dim) radians a token"""
    share: float = 1.0
    """the share of each head's dimensions that rotates, starting with the first"""
    beside: int = 0
    """how many of the last coordinates of queries and keys rotate; if not 0, `share` does not count
    """
    neighbours: bool = False
    """whether coordinates 2i and 2i+1 rotate together, rather than i and i + half"""
    scaling: RotaryScaling | None = None
    """how rotary frequencies are scaled for longer sequences"""
    positions: tuple[int, ...] | None = None
    """the positions of the tokens; None means 0, 1, 2, …"""
    relative: LearnedBias | None = None
    """which learned numbers are added to scores"""
    softcap: float = 0.0
    """the largest size of a score; 0 for no limit"""
    features: bool = False
    """whether weights are proportional to products of features, as in linear attention"""
    feature_epsilon: float = 0.0
    """the number that is added to the sum of these products, by which they are divided"""
    norm: str = ""
    """the norm of queries and keys: "rms", "layer", which subtracts the mean first, or none"""
    norm_over: str = "head"
    """the numbers over which a norm averages: those of a "head", of each "half" of a head, as with
    two maps, or of the whole "projection", in which all heads lie side by side"""
    epsilon: float = 0.0
    """the number that the norm adds to the mean square, or to the variance"""
    gain_from: float = 0.0
    """the number that is added to the stored gain: 1 if a module stores the gain minus 1"""
    head_norm: HeadNorm | None = None
    """the norm of what heads give, before it goes through the output layer"""
    block: BlockSteps | None = None
    """the steps of a block around attention: norms of tokens and a feed-forward, with residuals"""
    adds_tokens: bool = False
    """whether tokens were added to the output and taken off again, which rounds it"""

    def normalise(
        self,
        t: Float[Tensor, "*batch tokens head_dim"],
        gain: Float[Tensor, "d_gain"] | None = None,
        shift: Float[Tensor, "d_gain"] | None = None,
    ) -> Tensor:
        """Divide each query or key by the root of its mean square, then multiply by a gain.

        Sources: Zhang & Sennrich 2019, section 3 (arXiv:1910.07467); Ba et al. 2016, section 3
        (arXiv:1607.06450); for queries and keys Dehghani et al. 2023, section 2 (arXiv:2302.05442),
        over whole projections OLMo Team 2024, section 3 (arXiv:2501.00656), and over the halves of
        a head the class DiffAttention of the library timm.
        """
        if not self.norm:
            return t
        if self.norm == "layer":
            t = t - self.average(t)
        t = t * self.measure(t)
        t = t if gain is None else t * (self.gain_from + self.lay_out(gain, t))
        return t if shift is None else t + self.lay_out(shift, t)

    def measure(self, t: Float[Tensor, "*batch tokens head_dim"]) -> Tensor:
        """Return the factor that normalises centred queries or keys: one over their size."""
        return torch.rsqrt(self.average(t.square()) + self.epsilon)

    def average(self, t: Float[Tensor, "*batch tokens head_dim"]) -> Tensor:
        """Return the mean of each token, over a head, or over the heads in the axis before tokens.

        The means of the halves of a head are repeated for each coordinate. If several heads share
        keys, the mean is the same as over each key once.
        """
        if self.norm_over == "half":
            halves: Tensor = t.unflatten(-1, (2, -1))
            return halves.mean(-1).repeat_interleave(t.shape[-1] // 2, dim=-1)
        return t.mean((-3, -1) if self.norm_over == "projection" else -1, keepdim=True)

    def lay_out(self, own: Float[Tensor, "d_gain"], t: Tensor) -> Tensor:
        """Return a gain or a shift in the layout of queries or keys, whose heads may share keys.

        Heads have one each, or the same one. Both halves of a head have the same one.
        """
        if self.norm_over == "head" and own.shape[-1] == t.shape[-1]:
            return own
        if self.norm_over == "half":
            return own.repeat(2)
        # `unflatten` takes a hundred times as long to raise where norms have another width.
        return share_heads(own.reshape(-1, 1, t.shape[-1]), t.shape[-3])

    def place(self, t: Float[Tensor, "*batch tokens head_dim"]) -> Tensor:
        """Rotate queries or keys by their positions."""
        if not self.rotary:
            return t
        cos, sin = self.make_tables(t)
        return t * cos + self.swap_pairs(t) * sin

    def stand_last(self, queries: int, keys: int) -> "Variant":
        """Return the variant of so many queries that are the last of the tokens of the keys."""
        if queries == keys or self.positions is not None:
            return self
        return replace(self, positions=tuple(range(keys - queries, keys)))

    def list_places(self, tokens: int) -> Sequence[int]:
        """Return the positions of so many tokens."""
        return range(tokens) if self.positions is None else self.positions

    def make_tables(self, t: Float[Tensor, "*batch tokens head_dim"]) -> tuple[Tensor, Tensor]:
        """Return the cosines and sines of all coordinates of these queries or keys."""
        places = self.list_places(t.shape[-2])
        width = self.count_turned(t)
        tables = rotary_tables(max(places) + 1, width, self.base, t, self.scaling)
        cos, sin = (table[list(places)] for table in tables)
        return self.arrange(cos, t, 1.0), self.arrange(sin, t, 0.0)

    def count_turned(self, t: Float[Tensor, "*batch head_dim"]) -> int:
        """Return how many coordinates of heads of this width rotate."""
        return self.beside or round(t.shape[-1] * self.share)

    def arrange(self, halves: Tensor, t: Tensor, rest: float) -> Tensor:
        """Reorder numbers laid out for halves to match the pairs, and pad unrotated coordinates."""
        if self.neighbours:
            halves = halves.unflatten(-1, (2, -1)).mT.flatten(-2)
        missing = t.shape[-1] - halves.shape[-1]
        sides = (missing, 0) if self.beside else (0, missing)
        return torch.nn.functional.pad(halves, sides, value=rest) if missing else halves

    def swap_pairs(self, t: Float[Tensor, "*batch head_dim"]) -> Tensor:
        """Replace each coordinate by its partner; the first of a pair gets its partner negated."""
        width, count = t.shape[-1], self.count_turned(t)
        turned = t[..., width - count :] if self.beside else t[..., :count]
        if self.neighbours:
            pairs = turned.unflatten(-1, (-1, 2))
            swapped = torch.stack([-pairs[..., 1], pairs[..., 0]], dim=-1).flatten(-2)
        else:
            swapped = swap_halves(turned)
        rest = torch.zeros_like(t[..., count:])
        return torch.cat([rest, swapped] if self.beside else [swapped, rest], dim=-1)

    def find_features(self, t: Float[Tensor, "*batch head_dim"]) -> Tensor:
        """Return the factors whose products are the scores: queries or keys, or their features."""
        return elu_features(t) if self.features else t

    def find_bias(self, scores: Float[Tensor, "*batch heads q k"]) -> Tensor:
        """Return minus the slopes times the distances, for scores like these."""
        return alibi_bias(scores, two_sequences=self.two_sequences)

    def adjust(
        self,
        scores: Float[Tensor, "*batch heads q k"],
        table: Float[Tensor, "rows heads"] | None = None,
    ) -> Tensor:
        """Add the bias of distances to scaled scores, then limit them."""
        if self.relative is not None and table is not None:
            scores = scores + self.relative.bias(table, scores)
        if self.alibi:
            scores = scores + self.find_bias(scores)
        if self.softcap:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        return scores


PLAIN = Variant()


def elu_features(t: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """Return elu(x) + 1 of each number: x + 1 above zero and exp(x) below, always positive.

    Source: Katharopoulos et al. 2020, eq. 7 (arXiv:2006.16236).
    """
    return torch.where(t > 0, t + 1, torch.exp(t.clamp(max=0)))


def linear_shares(
    products: Float[Tensor, "*batch q k"],
    may_attend: Bool[Tensor, "*#batch #q #k"] | None = None,
    epsilon: float = 0.0,
) -> Float[Tensor, "*batch q k"]:
    """Divide the products of each query by their sum, over the permitted keys only.

    A small number may be added to the sum, so that it is never zero.
    """
    if may_attend is not None:
        products = products.masked_fill(~may_attend, 0.0)
    return products / (products.sum(-1, keepdim=True) + epsilon)


def rotary_angles(
    tokens: int, head_dim: int, base: float, like: Tensor, scaling: RotaryScaling | None = None
) -> Float[Tensor, "{tokens} {head_dim}//2"]:
    """Return the rotation angle of each pair of coordinates at each token: position * base^(-2i/d).

    With a scaling, frequencies base^(-2i/d) are replaced by scaled ones. Source: Su et al. 2021,
    RoFormer, section 3.2.2 (arXiv:2104.09864).
    Raises ValueError for an odd head_dim, which has no pairs.
    """
    if head_dim % 2:
        raise ValueError(
            f"rotary_angles: a head of {head_dim} dimensions has no pairs; make it even"
        )
    pair = torch.arange(0, head_dim, 2, dtype=like.dtype, device=like.device)
    position = torch.arange(tokens, dtype=like.dtype, device=like.device)
    frequencies: Tensor = base ** (-pair / head_dim)
    return position[:, None] * (
        frequencies if scaling is None else scaling.stretch(frequencies, base)
    )


def rotary_tables(
    tokens: int, head_dim: int, base: float, like: Tensor, scaling: RotaryScaling | None = None
) -> tuple[Tensor, Tensor]:
    """Return cosines and sines for all coordinates: coordinate i is paired with i + head_dim/2.

    Both are multiplied by the attention factor of a scaling.
    """
    angles = rotary_angles(tokens, head_dim, base, like, scaling)
    doubled = torch.cat([angles, angles], dim=-1)
    factor = 1.0 if scaling is None else scaling.attention_factor
    return factor * doubled.cos(), factor * doubled.sin()


def swap_halves(t: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """Swap the halves of the last axis and negate the new first half: (a, b) becomes (-b, a)."""
    first, second = t.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def alibi_slopes(
    heads: int, like: Tensor, *, two_sequences: bool = False
) -> Float[Tensor, "{heads}"]:
    """Return how much each head's scores fall with every token of distance: 2^(-8h/heads).

    h counts from 1. Source: Press et al. 2022, section 3 (arXiv:2108.12409). If the number of heads
    is not a power of two, the authors' code takes two sequences: that of the largest power p of two
    below, and for the other heads every second slope of that of 2p, from its first on. BLOOM and
    MPT do the same.
    """
    power = 1 << (heads.bit_length() - 1)
    number = torch.arange(1, heads + 1, dtype=like.dtype, device=like.device)
    if not two_sequences or power == heads:
        return 2 ** (-8 * number / heads)
    more = 2 * number[: heads - power] - 1
    return torch.cat([2 ** (-8 * number[:power] / power), 2 ** (-4 * more / power)])


def alibi_bias(
    scores: Float[Tensor, "*batch heads q k"], *, two_sequences: bool = False
) -> Float[Tensor, "heads q k"]:
    """Return the bias of scores like these: minus the slope times the distance back to a key.

    Queries are the last of the tokens whose keys are given. Later keys, which a causal mask hides,
    have a bias of 0.
    """
    heads, queries, keys = scores.shape[-3:]
    position = torch.arange(keys, dtype=scores.dtype, device=scores.device)
    distance = (position[keys - queries :, None] - position).clamp_min(0)
    slopes = alibi_slopes(heads, scores, two_sequences=two_sequences)
    return -slopes[:, None, None] * distance


def share_heads(
    t: Float[Tensor, "*batch kv_heads tokens head_dim"], heads: int
) -> Float[Tensor, "*batch {heads} tokens head_dim"]:
    """Repeat keys or values for the query heads that share them: head h uses number ⌊h/group⌋.

    Source: Ainslie et al. 2023, section 2.2 (arXiv:2305.13245).
    Raises ValueError when they cannot be shared evenly.
    """
    shared = t.shape[-3]
    if shared < 1 or heads % shared:
        raise ValueError(
            f"share_heads: {heads} query heads cannot share {shared} key heads evenly; "
            "choose a number that divides them"
        )
    return t if shared == heads else t.repeat_interleave(heads // shared, dim=-3)


def split_maps(t: Float[Tensor, "*batch head_dim"]) -> Float[Tensor, "2 *batch head_dim//2"]:
    """Cut queries or keys into the halves for the two softmaxes of differential attention.

    Raises ValueError for an odd head_dim, which has no halves.
    """
    if t.shape[-1] % 2:
        raise ValueError(
            f"split_maps: a head of {t.shape[-1]} dimensions has no halves; make it even"
        )
    return torch.stack(t.chunk(2, dim=-1))


def join_maps(t: Float[Tensor, "2 *batch half"]) -> Float[Tensor, "*batch 2*half"]:
    """Lay the halves side by side again: the inverse of split_maps."""
    return torch.cat(t.unbind(), dim=-1)
