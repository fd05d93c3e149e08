"""The stages of attention on one case, with their right values, in the order of the equation."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline import PipelineState, linear, split_heads
from headcheck.properties.parts.norms import LENGTH_ALONE
from headcheck.reference.multi_head import ask_gate
from headcheck.reference.variant import rotary_angles


class Kind(StrEnum):
    """How a stage is computed from those that it needs."""

    PRODUCT = "product"
    """by a product of matrices"""
    STEP = "step"
    """number by number, or row by row"""
    SOFTMAX = "softmax"


@dataclass(frozen=True, eq=False)
class OracleStage:
    """One stage: its right values, and the stages that it is computed from."""

    name: str
    """its name in sentences"""
    values: Tensor
    axes: str
    """a letter for each axis: batch, heads, tokens, keys, width"""
    needs: tuple[str, ...]
    kind: Kind = Kind.STEP
    hidden: Tensor | None = field(default=None, repr=False)
    """which numbers must be far below the others, whatever they are"""
    any_scale: bool = False
    """whether it is recognised if all its numbers are multiplied by the same factor"""
    optional: bool = False
    """whether a right answer may go without it"""
    also: tuple[Tensor, ...] = ()
    """other tensors that are as good: the axes of each are the last ones of `axes`"""

    @cached_property
    def numel(self) -> int:
        """How many numbers it has."""
        return self.values.numel()

    @cached_property
    def piece_sizes(self) -> list[int]:
        """How many numbers it has, and how many one piece of it has in loops."""
        sizes = dict(zip(self.axes, self.values.shape, strict=True))
        pieces = (math.prod(sizes.get(axis, 1) for axis in each) for each in ("h", "m", "b", "bh"))
        return [self.numel, *(self.numel // n for n in pieces if n > 1)]


Stages = Mapping[str, OracleStage]
KEPT = ("keys of all tokens", "values of all tokens")
"""the names of what a call with a cache compares new tokens with"""


def list_stages(s: PipelineState) -> dict[str, OracleStage]:
    """Return the stages by their keys, in order; a step that changes nothing is no stage."""
    stages = dict(_iter_projections(s))
    _Refiner(stages, s).refine()
    stages |= dict(_Attending(s, stages).iter_stages())
    stages |= dict(_iter_ends(s, stages))
    return stages


def list_continued_stages(stages: Stages, new: int) -> dict[str, OracleStage]:
    """Return the stages of a call for the last tokens of a sequence, with a cache of the others.

    Only its own tokens go through the layers. Keys and values of all tokens are stages, too.
    """
    found: dict[str, OracleStage] = {}
    kept = {find_last(stages, letter): word for letter, word in zip("kv", KEPT, strict=True)}
    for key, stage in stages.items():
        needs = tuple(f"all {need}" if need in kept else need for need in stage.needs)
        is_of_keys = key[0] in "kv"  # which are computed from what only these need
        cut = _keep_last(stage, new)
        found[key] = replace(cut, needs=stage.needs if is_of_keys else needs)
        if key in kept:
            found[f"all {key}"] = replace(stage, name=kept[key], needs=(key,), kind=Kind.STEP)
    return found


def _keep_last(stage: OracleStage, new: int) -> OracleStage:
    """Return a stage of the last tokens alone; one of no tokens stays as it is."""
    if "t" not in stage.axes:
        return stage
    axis = stage.axes.index("t") - len(stage.axes)

    def cut(tensor: Tensor) -> Tensor:
        return tensor.narrow(axis, tensor.shape[axis] - new, new)

    hidden = None if stage.hidden is None else cut(stage.hidden)
    also = tuple(map(cut, stage.also))
    return replace(stage, values=cut(stage.values), hidden=hidden, also=also)


def _iter_projections(s: PipelineState) -> Iterator[tuple[str, OracleStage]]:
    for key, name, tokens in zip("qkv", ("", " for keys", " for values"), s.seen, strict=True):
        yield f"x{key}", OracleStage(f"tokens{name}", tokens, "btd", (), optional=True)
    if s.inputs.variant.block is not None:
        yield "entered", OracleStage("normed tokens", s.entered[0], "btd", ("xq",))
    before = ("entered",) if s.inputs.variant.block is not None else ()
    p = s.p
    layers = (p.W_q, p.b_q), (p.W_k, p.b_k), (p.W_v, p.b_v)
    if p.W_down is not None:
        latent = linear(s.entered[1], p.W_down)
        yield "latent", OracleStage("latents", latent, "btd", before or ("xk",), Kind.PRODUCT)
    names = zip("qkv", ("queries", "keys", "values"), layers, s.split, s.entered, strict=True)
    for key, name, (weight, bias), values, tokens in names:
        needs = before or (f"x{key}",)
        if p.W_down is not None and key != "q":
            needs, tokens = ("latent",), latent
        if bias is not None:
            bare = split_heads(linear(tokens, weight), values.shape[1])
            yield (
                f"{key}0",
                OracleStage(
                    f"{name} without their bias", bare, "bhtw", needs, Kind.PRODUCT, optional=True
                ),
            )
            yield key, OracleStage(name, values, "bhtw", (*needs, f"{key}0"), Kind.PRODUCT)
        else:
            yield key, OracleStage(name, values, "bhtw", needs, Kind.PRODUCT)


@dataclass(frozen=True, eq=False)
class _Refiner:
    """Adds what happens to queries, keys and values before they are compared."""

    stages: dict[str, OracleStage]
    s: PipelineState

    def refine(self) -> None:
        before = list(self.s.split)
        if self.s.inputs.variant.norm:
            # Of length one in code, queries and keys have that of the root of their width here.
            any_scale = self.s.inputs.variant.epsilon == LENGTH_ALONE
            before = self.add("normed {}", "n", self.s.normed, before, any_scale=any_scale)
        if self.s.inputs.variant.rotary:
            self.stages.update(_iter_angles(self.s))
        if self.s.p.W_qr is not None:
            before = self.append(before)
        else:
            before = self.add("rotated {}", "r", self.s.placed, before)
        before = self.add("{} of all heads", "s", self.s.shared, before, optional=True)
        if self.s.p.lambdas is not None:
            before = self.halve(before)
        self.add("features of the {}", "f", self.s.mapped, before)

    def add(
        self,
        name: str,
        letter: str,
        after: tuple[Tensor, ...],
        before: list[Tensor],
        *,
        optional: bool = False,
        any_scale: bool = False,
    ) -> list[Tensor]:
        """Add the stages that differ from those before them."""
        for key, noun, old, new in zip(
            "qkv", ("queries", "keys", "values"), before, after, strict=True
        ):
            if new is not old and not (new.shape == old.shape and torch.equal(new, old)):
                needs = find_last(self.stages, key), *(("angles",) * (letter == "r"))
                stage = OracleStage(
                    name.format(noun), new, "bhtw", needs, optional=optional, any_scale=any_scale
                )
                self.stages[f"{key}{letter}"] = stage
        return list(after)

    def append(self, before: list[Tensor]) -> list[Tensor]:
        """Add the rotating parts of queries and keys; code may never join them to the others."""
        own = before[0].shape[-1]
        for key, noun, heads in (("q", "queries", slice(None)), ("k", "keys", 0)):
            at = "qk".index(key)
            plain, turned = (t[at][:, heads, :, own:] for t in (self.s.appended, self.s.placed))
            axes, first = "bhtw" if key == "q" else "btw", (f"x{key}",)
            part = OracleStage(f"rotating parts of the {noun}", plain, axes, first, Kind.PRODUCT)
            self.stages[f"{key}p"] = part
            needs = f"{key}p", "angles"
            self.stages[f"{key}t"] = OracleStage(
                f"rotated parts of the {noun}", turned, axes, needs
            )
            whole = f"{noun} with both parts", self.s.placed[at], "bhtw", (key, f"{key}t")
            self.stages[f"{key}r"] = OracleStage(*whole, optional=True)
        return list(self.s.placed)

    def halve(self, before: list[Tensor]) -> list[Tensor]:
        """Add the halves of queries and keys, which are compared apart."""
        for key, noun in (("q", "queries"), ("k", "keys")):
            whole = before["qk".index(key)].unflatten(-1, (2, -1)).transpose(-3, -2)
            last = find_last(self.stages, key)
            stage = OracleStage(f"halves of the {noun}", whole, "bhmtw", (last,), optional=True)
            self.stages[f"{key}h"] = stage
        return list(self.s.halved)


def _iter_angles(s: PipelineState) -> Iterator[tuple[str, OracleStage]]:
    """Yield the frequencies and the angles of rotations, with their cosines and sines."""
    variant, query = s.inputs.variant, s.appended[0]
    width = variant.count_turned(query)
    tokens = max(query.shape[-2], s.inputs.keys)
    for key, scaling in (("unscaled", None), ("frequencies", variant.scaling)):
        values = rotary_angles(2, width, variant.base, query, scaling)[1]
        name = "frequencies before they are scaled" if key == "unscaled" else "frequencies"
        needs = ("unscaled",) * (key == "frequencies")
        yield key, OracleStage(name, values, "w", needs, optional=True)
    angles = rotary_angles(tokens, width, variant.base, query, variant.scaling)
    forms = angles, angles.cos(), angles.sin()
    doubled = [torch.cat([each, each], -1) for each in forms]
    doubled += [each.repeat_interleave(2, -1) for each in forms]
    needs = "unscaled", "frequencies"
    yield (
        "angles",
        OracleStage("angles of the rotations", angles, "tw", needs, also=(*forms[1:], *doubled)),
    )


def find_last(stages: Stages, key: str) -> str:
    """Return the key of the last stage of queries, "q", of keys, "k", or of values, "v"."""
    return [each for each in stages if each[0] == key and each[1:] in ("", *"nrshf")][-1]


@dataclass(frozen=True, eq=False)
class _Attending:
    """Lists the stages from scores to the heads' outputs."""

    s: PipelineState
    stages: Stages

    @cached_property
    def hidden(self) -> Tensor | None:
        """Which scores are hidden; None if none are."""
        visible = self.s.visible
        hidden = None if visible is None else ~visible.expand(self.s.scores.shape)
        return hidden if hidden is not None and bool(hidden.any()) else None

    @property
    def featured(self) -> bool:
        return bool(self.s.inputs.variant.features)

    @property
    def has_maps(self) -> bool:
        return self.s.p.lambdas is not None

    def show(self, name: str, values: Tensor, needs: tuple[str, ...], **others: Any) -> OracleStage:
        """Return a stage of scores or weights, with both maps of a head apart."""
        values = values.unflatten(1, (-1, 2)) if self.has_maps else values
        return OracleStage(name, values, "bhmts" if self.has_maps else "bhts", needs, **others)

    def iter_stages(self) -> Iterator[tuple[str, OracleStage]]:
        yield from self._iter_scores()
        last = "adjusted" if self._is_adjusted else "scores"
        if self.hidden is not None:
            yield from self._iter_masked(last, self.hidden)
            last = "masked"
        if self.has_maps:
            maps = self.show("softmaxes of both maps", self.s.maps, (last,), kind=Kind.SOFTMAX)
            yield "maps", maps
            last = "maps"
        yield from self._iter_averages(last)

    @property
    def _is_adjusted(self) -> bool:
        s = self.s
        return s.scores is not s.scaled and not torch.equal(s.scores, s.scaled)

    def _iter_scores(self) -> Iterator[tuple[str, OracleStage]]:
        """Yield the scores, and those with a limit or a bias."""
        s, featured = self.s, self.featured
        name, values = ("products", s.raw_scores) if featured else ("scores", s.scaled)
        compared = find_last(self.stages, "q"), find_last(self.stages, "k")
        # Sums over features of keys need neither products with queries nor weights.
        loose = {"kind": Kind.PRODUCT, "any_scale": True, "optional": featured}
        yield "scores", self.show(name, values, compared, **loose)
        if self._is_adjusted:
            yield "adjusted", self.show(_name_adjusted(s), s.scores, ("scores",))
            seen = s.scaled if self.hidden is None else s.scaled.masked_fill(self.hidden, -math.inf)
            plain = "weights of plain scores", torch.softmax(seen, -1), ("scores",)
            yield "unadjusted", self.show(*plain, kind=Kind.SOFTMAX, optional=True)

    def _iter_masked(self, last: str, hidden: Tensor) -> Iterator[tuple[str, OracleStage]]:
        """Yield masked scores, and the weights of code that hides after the softmax."""
        s, featured = self.s, self.featured
        filled = hidden.unflatten(1, (-1, 2)) if self.has_maps else hidden
        loose = {"any_scale": last == "scores", "optional": featured}
        name = "masked products" if featured else "masked scores"
        where = None if featured else filled
        yield "masked", self.show(name, s.masked_scores, (last,), hidden=where, **loose)
        if featured:
            return
        plain, name = torch.softmax(s.scores, -1), "weights without the mask"
        unmasked = self.show(name, plain, (last,), kind=Kind.SOFTMAX, optional=True)
        yield "unmasked", unmasked
        cut, name = plain.masked_fill(hidden, 0.0), "weights with hidden ones set to 0"
        yield "cut", self.show(name, cut, ("unmasked",), optional=True)

    def _iter_averages(self, last: str) -> Iterator[tuple[str, OracleStage]]:
        """Yield the weights, and the averages of values."""
        s, featured, value = self.s, self.featured, find_last(self.stages, "v")
        if featured:
            sums, needs = s.masked_scores @ s.value, (last, value)
            own = "sums before the division", sums, "bhtw", needs, Kind.PRODUCT
            yield "sums", OracleStage(*own, optional=True)
        kind = Kind.STEP if featured or self.has_maps else Kind.SOFTMAX
        weights = "weights", s.applied_weights, "bhts", (last,), kind
        yield "weights", OracleStage(*weights, optional=featured)
        needed = ("weights", value, *(("sums",) * featured))
        kind = Kind.STEP if featured else Kind.PRODUCT
        yield "context", OracleStage("heads' outputs", s.averages, "bhtw", needed, kind)


def _name_adjusted(s: PipelineState) -> str:
    variant = s.inputs.variant
    if variant.softcap:
        return "limited scores"
    return f"scores with their {'bias for distances' if variant.alibi else 'learned numbers'}"


def _iter_ends(s: PipelineState, stages: Stages) -> Iterator[tuple[str, OracleStage]]:
    heads, last = s.inputs.heads, "context"
    if s.inputs.variant.head_norm is not None:
        normed = OracleStage("normed outputs of the heads", s.head_contexts, "bhtw", (last,))
        yield "normed", normed
        last = "normed"
    if s.p.W_gate is not None:
        asked = split_heads(ask_gate(s.x, s.p), heads)
        needs = "entered" if "entered" in stages else "xq"
        if torch.equal(asked, asked[..., :1].expand_as(asked)):  # a head has one number for all
            asked = asked[..., 0]
        axes = "bhtw"[: asked.dim()]
        yield "gate", OracleStage("inputs of the gate", asked, axes, (needs,), Kind.PRODUCT)
        gated = split_heads(s.context, heads)
        yield "gated", OracleStage("gated outputs", gated, "bhtw", (last, "gate"))
        last = "gated"
    if s.p.W_o is not None:
        if s.p.b_o is not None:
            bare = linear(s.context, s.p.W_o)
            yield (
                "bare",
                OracleStage(
                    "outputs without their bias", bare, "btd", (last,), Kind.PRODUCT, optional=True
                ),
            )
            last = "bare"
        yield "attended", OracleStage("projected outputs", s.attended, "btd", (last,), Kind.PRODUCT)
        last = "attended"
    if s.inputs.variant.block is not None:
        yield from _iter_block(s, last)
    if "logsumexp" in s.inputs.wanted:
        before = "masked" if "masked" in stages else "scores"
        yield "logsumexp", OracleStage("log-sum-exp of the scores", s.answer[1], "bht", (before,))


def _iter_block(s: PipelineState, last: str) -> Iterator[tuple[str, OracleStage]]:
    yield "added", OracleStage("sums of tokens and attention", s.added, "btd", (last, "xq"))
    yield "renormed", OracleStage("normed sums", s.renormed, "btd", ("added",))
    for key, name, values, needs, kind in (
        ("hidden", "hidden numbers of the feed-forward", s.hidden, "renormed", Kind.PRODUCT),
        ("active", "activated numbers", s.active, "hidden", Kind.STEP),
        ("forwarded", "outputs of the feed-forward", s.forwarded, "active", Kind.PRODUCT),
    ):
        yield key, OracleStage(name, values, "btd", (needs,), kind)
    yield "closed", OracleStage("outputs of the block", s.output, "btd", ("forwarded", "added"))


def collect_needed(stages: Stages, key: str) -> frozenset[str]:
    """Return the keys of all stages from which a stage is computed, directly or not."""
    todo, needed = [key], set[str]()
    while todo:
        for each in stages[todo.pop()].needs:
            if each in stages and each not in needed:
                needed.add(each)
                todo.append(each)
    return frozenset(needed)
