"""Multi-head attention as a recipe: one function for every step, each of which can be exchanged.

    x → see → project → split → assign → match → scale → permit → hide → normalise → use → mix
      → merge → finish → give

`RIGHT` computes what `reference.multi_head_attention` computes. A mistake that people make is
another function in the place of one or two of these (`properties.mistakes.catalogue`), so
everything before and after it is simulated, too: what a mistake in the mask does to the output can
be compared exactly, whatever is projected afterwards.

All steps have a batch axis. Nothing here is checked for shape: a mistake may give any.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reference.multi_head import Parameters


@dataclass(frozen=True, eq=False)
class Given:
    """What attention is computed from."""

    x: Float[Tensor, "batch tokens d_in"]
    parameters: Parameters
    heads: int
    may_attend: Bool[Tensor, "*#lead #tokens #tokens"] | None
    scale: float
    context_length: int
    causal: bool = False
    """whether the mask is the module's own; otherwise it was handed in"""
    wanted: tuple[str, ...] = ("output",)
    """what is asked for: `output`, `weights`, or the `matrix` of the only head's weights"""

    @property
    def d_in(self) -> int:
        """The width of a token."""
        return self.x.shape[-1]

    @property
    def tokens(self) -> int:
        """The length of a sequence."""
        return self.x.shape[-2]

    @property
    def d_out(self) -> int:
        """The width of all heads together."""
        return self.parameters.W_q.shape[0]

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        return self.d_out // self.heads


Three = tuple[Tensor, Tensor, Tensor]


@dataclass(eq=False)
class Steps:
    """What has been computed so far, each under the name of what it is."""

    given: Given
    x: Tensor = field(init=False)  # batch tokens d_in
    projected: Three = field(init=False)  # batch tokens d_out, each
    split: Three = field(init=False)  # batch heads tokens head_dim, each
    attending: Three = field(init=False)  # the same: query, key, value
    raw: Tensor = field(init=False)  # batch heads tokens tokens
    scores: Tensor = field(init=False)
    visible: Tensor | None = field(init=False)
    masked: Tensor = field(init=False)
    weights: Tensor = field(init=False)
    used: Tensor = field(init=False)
    mixed: Tensor = field(init=False)  # batch heads tokens head_dim
    context: Tensor = field(init=False)  # batch tokens d_out
    output: Tensor = field(init=False)
    answer: tuple[Tensor, ...] = field(init=False)

    def copy(self) -> "Steps":
        """The same results, to go on from. By far quicker than `copy.copy`."""
        other = Steps.__new__(Steps)
        other.__dict__.update(self.__dict__)
        return other

    @property
    def query(self) -> Tensor:
        """Who asks."""
        return self.attending[0]

    @property
    def key(self) -> Tensor:
        """What is compared with."""
        return self.attending[1]

    @property
    def value(self) -> Tensor:
        """What is averaged."""
        return self.attending[2]

    @property
    def p(self) -> Parameters:
        """The weights of the layers."""
        return self.given.parameters


# ------------------------------------------------------------- of any shape, so not annotated


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """X Wᵀ + b."""
    return x @ weight.mT if bias is None else x @ weight.mT + bias


def split_heads(t: Tensor, heads: int) -> Tensor:
    """One block of neighbouring columns for each head: batch heads tokens head_dim."""
    *size, width = t.shape
    return t.reshape(*size, heads, width // heads).transpose(-3, -2)


def merge_heads(t: Tensor) -> Tensor:
    """The heads side by side again."""
    return t.transpose(-3, -2).flatten(-2)


# ---------------------------------------------------------------------------- the right steps


def tokens(s: Steps) -> Tensor:
    """X."""
    return s.given.x


def projections(s: Steps) -> Three:
    """X Wᵀ + b, three times."""
    p = s.p
    return linear(s.x, p.W_q, p.b_q), linear(s.x, p.W_k, p.b_k), linear(s.x, p.W_v, p.b_v)


def blocks(s: Steps) -> Three:
    """Each head takes a block of neighbouring columns."""
    q, k, v = (split_heads(t, s.given.heads) for t in s.projected)
    return q, k, v


def as_projected(s: Steps) -> Three:
    """Queries ask, keys are compared with, values are averaged."""
    return s.split


def products(s: Steps) -> Tensor:
    """Q Kᵀ."""
    return s.query @ s.key.mT


def scaled(s: Steps) -> Tensor:
    """Q Kᵀ / √d_k, or what else the statement asks for."""
    return s.raw * s.given.scale


def as_asked(s: Steps) -> Tensor | None:
    """The mask of the statement."""
    return s.given.may_attend


def minus_infinity(s: Steps) -> Tensor:
    """Hidden scores become −∞."""
    return s.scores if s.visible is None else s.scores.masked_fill(~s.visible, -math.inf)


def softmax_over_keys(s: Steps) -> Tensor:
    """Each query's weights sum to one."""
    return torch.softmax(s.masked, dim=-1)


def all_weights(s: Steps) -> Tensor:
    """The weights as they are."""
    return s.weights


def average(s: Steps) -> Tensor:
    """Σ_j p_ij v_j."""
    return s.used @ s.value


def side_by_side(s: Steps) -> Tensor:
    """Concat(head_1, …, head_h)."""
    return merge_heads(s.mixed)


def output_layer(s: Steps) -> Tensor:
    """Concat(…) W_oᵀ + b_o, if there is an output layer."""
    return s.context if s.p.W_o is None else linear(s.context, s.p.W_o, s.p.b_o)


def what_is_wanted(s: Steps) -> tuple[Tensor, ...]:
    """What the statement asks to be returned."""
    return tuple(asked(s, name) for name in s.given.wanted)


def asked(s: Steps, name: str) -> Tensor:
    """One of the things that can be asked for."""
    match name:
        case "output":
            return s.output
        case "weights":
            return s.used
        case "matrix":
            return s.used[:, 0]
    raise ValueError(f"asked: there is no {name}; ask for output, weights or matrix")


def values_alone(s: Steps) -> Tensor:
    """No attention: every token has its own value."""
    return s.value


Change = Mapping[str, Callable[[Steps], object]]
"""Functions by the step that they stand in for."""


@dataclass(frozen=True)
class Recipe:
    """A function for every step, in their order."""

    see: Callable[[Steps], Tensor] = tokens
    project: Callable[[Steps], Three] = projections
    split: Callable[[Steps], Three] = blocks
    assign: Callable[[Steps], Three] = as_projected
    match: Callable[[Steps], Tensor] = products
    scale: Callable[[Steps], Tensor] = scaled
    permit: Callable[[Steps], Tensor | None] = as_asked
    hide: Callable[[Steps], Tensor] = minus_infinity
    normalise: Callable[[Steps], Tensor] = softmax_over_keys
    use: Callable[[Steps], Tensor] = all_weights
    mix: Callable[[Steps], Tensor] = average
    merge: Callable[[Steps], Tensor] = side_by_side
    finish: Callable[[Steps], Tensor] = output_layer
    give: Callable[[Steps], tuple[Tensor, ...]] = what_is_wanted

    def with_(self, change: Change) -> "Recipe":
        """Other functions in the place of some."""
        return replace(self, **change)  # type: ignore[arg-type]  # each is one for its step


RIGHT = Recipe()
LINEAR = replace(RIGHT, mix=values_alone)
"""A linear layer: what becomes of the values when nobody attends."""

STEPS = tuple(step.name for step in fields(Recipe))
MADE = tuple(step.name for step in fields(Steps) if step.name != "given")
"""What each step computes."""


class Kitchen:
    """Follows recipes on one input, which differ from one of them in a step or two.

    What comes before the last difference is remembered: other recipes begin in the same way.
    """

    def __init__(self, given: Given, base: Recipe) -> None:
        self._usual = [getattr(base, step) for step in STEPS]
        self._root = _Node(Steps(given))

    def follow(self, recipe: Recipe) -> Steps | None:
        """Everything a recipe computes; None where it cannot be followed: shapes do not fit."""
        functions = [getattr(recipe, step) for step in STEPS]
        differs = [i for i, function in enumerate(functions) if function is not self._usual[i]]
        last = differs[-1] if differs else 0
        node = self._root
        for made, function in zip(MADE[:last], functions, strict=False):
            after = node.after(made, function)
            if after is None:
                return None
            node = after
        steps = node.steps.copy()
        try:
            for made, function in zip(MADE[last:], functions[last:], strict=True):
                setattr(steps, made, function(steps))
        except UNFIT:
            return None
        return steps


UNFIT = (RuntimeError, ValueError, IndexError)
"""What torch raises where shapes do not fit, as it does in a program that makes the mistake."""


class _Node:
    """The state after some steps, and after each step that was taken from here."""

    __slots__ = ("further", "steps")

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.further: dict[Callable[[Steps], object], _Node | None] = {}

    def after(self, made: str, function: Callable[[Steps], object]) -> "_Node | None":
        if function not in self.further:
            self.further[function] = self._next(made, function)
        return self.further[function]

    def _next(self, made: str, function: Callable[[Steps], object]) -> "_Node | None":
        steps = self.steps.copy()
        try:
            setattr(steps, made, function(steps))
        except UNFIT:
            return None
        return _Node(steps)
