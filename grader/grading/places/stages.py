"""The stages of attention on one case, with their right values, in the order of the equation."""

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from headcheck.grader.grading.tracing.operations import POWERS, Action
from headcheck.properties.mistakes.pipeline import PipelineState, QKVTensors, linear, split_heads
from headcheck.properties.parts.norms import LENGTH_ALONE
from headcheck.reference.multi_head import ask_gate
from headcheck.reference.variant import rotary_angles


class Kind(StrEnum):
    """How a stage is computed from those that it needs."""

    LAYER = "layer"
    """by a product with a weight"""
    PRODUCT = "product"
    """by a product of what tokens give"""
    SUM = "sum"
    """by one operation on two stages"""
    STEP = "step"
    """number by number, or row by row"""
    SOFTMAX = "softmax"


@dataclass(frozen=True, eq=False)
class OracleStage:
    """One stage: its right values, what it is computed from, and which steps may give it."""

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
    scaled_later: bool = False
    """whether one step must give it as it is, before others multiply it"""
    optional: bool = False
    """whether a right answer may go without it"""
    also: tuple[Tensor, ...] = ()
    """other tensors that are as good: the axes of each are the last ones of `axes`"""
    role: str = ""
    """whether it is all of the queries, "q", of the keys, "k", or of the values, "v\""""
    weight: str = ""
    """the canonical name of the weight of its layer, or of the gain of its norm"""
    by: Set[Action] = frozenset()
    """the only operations that give it; a later one may leave its numbers as they are"""
    into: Set[Action] = frozenset()
    """operations of which at least one takes it"""
    lacks: str = ""
    """the stage that wrong code left out before it; right code never computes it"""
    told: str = ""
    """what is said of the lines that give it, if they are wrong, instead of what they lack"""

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

    @property
    def is_projected(self) -> bool:
        """Whether it is the queries, keys or values that a layer gives."""
        return bool(self.role) and self.kind is Kind.LAYER

    @property
    def is_of_keys(self) -> bool:
        """Whether it has a number for each query and each key, as scores and weights have."""
        return {"t", "s"} <= {*self.axes}


Stages = Mapping[str, OracleStage]
ROLES = {"q": "queries", "k": "keys", "v": "values"}
KEPT = ("keys of all tokens", "values of all tokens")
"""the names of what a call with a cache compares new tokens with"""


def list_stages(s: PipelineState) -> dict[str, OracleStage]:
    """Return the stages by their keys, in order; a step that changes nothing is no stage."""
    lister = _Lister(s)
    lister.project()
    lister.refine()
    lister.average(lister.hide(lister.compare()))
    lister.finish()
    return lister.stages


def list_continued_stages(stages: Stages, new: int) -> dict[str, OracleStage]:
    """Return the stages of a call for the last tokens of a sequence, with a cache of the others.

    Only its own tokens go through the layers. Keys and values of all tokens are stages, too.
    """
    found: dict[str, OracleStage] = {}
    kept = {find_last(stages, letter): word for letter, word in zip("kv", KEPT, strict=True)}
    for key, stage in stages.items():
        needs = tuple(f"all {need}" if need in kept else need for need in stage.needs)
        found[key] = replace(_keep_last(stage, new), needs=needs)
        if key in kept:
            every = replace(stage, name=kept[key], axes="bhsw", needs=(key,), role="", weight="")
            found[f"all {key}"] = replace(every, kind=Kind.STEP)
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


@dataclass(frozen=True, eq=False)
class _Lister:
    """Lists the stages of a computation."""

    s: PipelineState
    stages: dict[str, OracleStage] = field(default_factory=dict)

    def add(self, key: str, name: str, values: Tensor, axes: str, *needs: str, **more: Any) -> str:
        """Add a stage, and return its key."""
        self.stages[key] = OracleStage(name, values, axes, needs, **more)
        return key

    def add_layer(
        self, key: str, name: str, values: Tensor, axes: str, *needs: str,
        weight: str, role: str = "", bare: Tensor | None = None,
    ) -> str:  # fmt: skip
        """Add what a layer gives, and what it gives before its bias is added; return the key."""
        made: dict[str, Any] = {"kind": Kind.LAYER, "weight": weight}
        if bare is not None:
            before = f"{name.removeprefix('projected ')} without their bias", bare, axes
            needs = (self.add(f"{key}0", *before, *needs, optional=True, **made),)
        return self.add(key, name, values, axes, *needs, role=role, **made)

    def project(self) -> None:
        """Add tokens, and the queries, keys and values of layers."""
        s, p = self.s, self.s.p
        for key, of, x in zip("qkv", ("", " for keys", " for values"), s.seen, strict=True):
            self.add(f"x{key}", f"tokens{of}", x, "btd", optional=True)
        given, tokens = {key: f"x{key}" for key in ROLES}, s.entered
        if s.inputs.variant.block is not None:
            name = "normed tokens", s.entered[0], "btd"
            given = dict.fromkeys(ROLES, self.add("entered", *name, "xq", weight="gain_in"))
        if p.W_down is not None:
            latents = linear(s.entered[1], p.W_down)
            self.add_layer("latent", "latents", latents, "btd", given["k"], weight="W_down")
            given, tokens = {**given, "k": "latent", "v": "latent"}, (tokens[0], latents, latents)
        layers = (p.W_q, p.b_q), (p.W_k, p.b_k), (p.W_v, p.b_v)
        for key, (weight, bias), x, values in zip(ROLES, layers, tokens, s.split, strict=True):
            bare = None if bias is None else split_heads(linear(x, weight), values.shape[1])
            named = ROLES[key], values, "bhtw"
            self.add_layer(key, *named, given[key], weight=f"W_{key}", role=key, bare=bare)

    def refine(self) -> None:
        """Add what happens to queries, keys and values before they are compared."""
        s = self.s
        # Of length one in code, queries and keys have that of the root of their width here.
        any_scale = s.inputs.variant.epsilon == LENGTH_ALONE
        self.change("n", "normed {}", s.split, s.normed, weight="gain_{}", any_scale=any_scale)
        if s.inputs.variant.rotary:
            self.turn()
        if s.p.W_qr is not None:
            self.append()
        else:
            self.change("r", "rotated {}", s.normed, s.placed, "angles")
        self.change("s", "{} of all heads", s.placed, s.shared, optional=True)
        for key, whole in zip("qk", s.shared, strict=False) if s.p.lambdas is not None else ():
            halves = whole.unflatten(-1, (2, -1)).transpose(-3, -2)
            named = f"halves of the {ROLES[key]}", halves, "bhmtw"
            self.add(f"{key}h", *named, find_last(self.stages, key), role=key, optional=True)
        self.change("f", "features of the {}", s.halved, s.mapped)

    def change(
        self, letter: str, name: str, before: QKVTensors, after: QKVTensors, *more: str,
        weight: str = "", **others: Any,
    ) -> None:  # fmt: skip
        """Add the queries, keys and values that a step has changed."""
        for (key, noun), old, new in zip(ROLES.items(), before, after, strict=True):
            if new.shape != old.shape or not torch.equal(new, old):
                needs = find_last(self.stages, key), *more
                others["weight"] = weight.format(key)
                named = name.format(noun), new, "bhtw"
                self.add(f"{key}{letter}", *named, *needs, role=key, **others)

    def turn(self) -> None:
        """Add the frequencies and the angles of rotations, with their cosines and sines."""
        variant, query = self.s.inputs.variant, self.s.appended[0]
        width = variant.count_turned(query)
        tokens = max(query.shape[-2], self.s.inputs.keys)
        plain = rotary_angles(2, width, variant.base, query, None)[1]
        scaled = rotary_angles(2, width, variant.base, query, variant.scaling)[1]
        first = "frequencies before they are scaled", plain, "w"
        self.add("unscaled", *first, optional=True, by=POWERS)
        self.add("frequencies", "frequencies", scaled, "w", "unscaled", optional=True)
        angles = rotary_angles(tokens, width, variant.base, query, variant.scaling)
        forms = angles, angles.cos(), angles.sin()
        doubled = [torch.cat([each, each], -1) for each in forms]
        doubled += [each.repeat_interleave(2, -1) for each in forms]
        needs, also = ("unscaled", "frequencies"), (*forms[1:], *doubled)
        turning = {"also": also, "into": {Action.ANGLE}}
        self.add("angles", "angles of the rotations", angles, "tw", *needs, **turning)

    def append(self) -> None:
        """Add the rotating parts of queries and keys; code may never join them to the others."""
        s, own = self.s, self.s.normed[0].shape[-1]
        for i, (key, heads) in enumerate((("q", None), ("k", 1))):
            plain, turned = (t[i][:, :heads, :, own:] for t in (s.appended, s.placed))
            name = f"parts of the {ROLES[key]}"
            first = f"rotating {name}", plain, "bhtw", f"x{key}"
            part = self.add_layer(f"{key}p", *first, weight=f"W_{key}r")
            part = self.add(f"{key}t", f"rotated {name}", turned, "bhtw", part, "angles")
            whole = f"{ROLES[key]} with both parts", s.placed[i], "bhtw", key, part
            self.add(f"{key}r", *whole, role=key, optional=True)

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

    def add_scores(self, key: str, name: str, values: Tensor, *needs: str, **more: Any) -> str:
        """Add a stage of scores or weights, with both maps of a head apart."""
        axes = "bhmts" if self.has_maps else "bhts"
        return self.add(key, name, self.part_maps(values), axes, *needs, **more)

    def part_maps(self, values: Tensor) -> Tensor:
        return values.unflatten(1, (-1, 2)) if self.has_maps else values

    def compare(self) -> str:
        """Add the scores, and those with a limit or a bias; return the key of the last."""
        s, featured = self.s, self.featured
        is_adjusted = not torch.equal(s.scores, s.scaled)
        name, values = ("products", s.raw_scores) if featured else ("scores", s.scaled)
        compared = find_last(self.stages, "q"), find_last(self.stages, "k")
        # Sums over features of keys need neither products with queries nor weights.
        # What is added to scores, or limits them, may have any scale.
        loose = {"any_scale": True, "scaled_later": is_adjusted, "optional": featured}
        last = self.add_scores("scores", name, values, *compared, kind=Kind.PRODUCT, **loose)
        if is_adjusted:
            last = self.add_scores("adjusted", _name_adjusted(s), s.scores, "scores")
            seen = s.scaled if self.hidden is None else s.scaled.masked_fill(self.hidden, -math.inf)
            plain = "weights of plain scores", torch.softmax(seen, -1), "scores"
            wrong: dict[str, Any] = {"kind": Kind.SOFTMAX, "lacks": "adjusted"}
            self.add_scores("unadjusted", *plain, optional=True, **wrong)
        return last

    def hide(self, last: str) -> str:
        """Add masked scores, and the weights of code that hides after the softmax."""
        s, featured, hidden = self.s, self.featured, self.hidden
        if hidden is None:
            return last
        loose = {"any_scale": last == "scores", "optional": featured}
        name = "masked products" if featured else "masked scores"
        where = None if featured else self.part_maps(hidden)
        self.add_scores("masked", name, s.masked_scores, last, hidden=where, **loose)
        if not featured:
            plain = torch.softmax(s.scores, -1)
            wrong: dict[str, Any] = {"kind": Kind.SOFTMAX, "lacks": "masked", "optional": True}
            self.add_scores("unmasked", "weights without the mask", plain, last, **wrong)
            cut = "weights with hidden ones set to 0", plain.masked_fill(hidden, 0.0), "unmasked"
            told = "hides weights after the softmax, and not scores before it"
            self.add_scores("cut", *cut, optional=True, told=told)
        return "masked"

    def average(self, last: str) -> None:
        """Add the weights, and the averages of values."""
        s, featured, value = self.s, self.featured, find_last(self.stages, "v")
        if self.has_maps:
            named = "softmaxes of both maps", s.maps
            last = self.add_scores("maps", *named, last, kind=Kind.SOFTMAX)
        needs = ["weights", value]
        if featured:
            sums = "sums before the division", s.masked_scores @ s.value, "bhtw"
            needs.append(self.add("sums", *sums, last, value, kind=Kind.PRODUCT, optional=True))
        kind = Kind.STEP if featured or self.has_maps else Kind.SOFTMAX
        own = {"kind": kind, "optional": featured, "weight": "sinks"}
        self.add("weights", "weights", s.applied_weights, "bhts", last, **own)
        kind = Kind.STEP if featured else Kind.PRODUCT
        self.add("context", "heads' outputs", s.averages, "bhtw", *needs, kind=kind)

    def finish(self) -> None:
        """Add what happens to the heads' outputs."""
        s, last, gate = self.s, "context", "entered" if "entered" in self.stages else "xq"
        if s.inputs.variant.head_norm is not None:
            normed = "normed outputs of the heads", s.head_contexts, "bhtw"
            last = self.add("normed", *normed, last, weight="gain_heads")
        if s.p.W_gate is not None:
            asked = split_heads(ask_gate(s.x, s.p), s.inputs.heads)
            if torch.equal(asked, asked[..., :1].expand_as(asked)):  # one number for a whole head
                asked = asked[..., 0]
            own = "inputs of the gate", asked, "bhtw"[: asked.dim()], gate
            gate = self.add_layer("gate", *own, weight="W_gate")
            gated = "gated outputs", split_heads(s.context, s.inputs.heads), "bhtw"
            last = self.add("gated", *gated, last, gate, kind=Kind.SUM)
        if s.p.W_o is not None:
            bare = None if s.p.b_o is None else linear(s.context, s.p.W_o)
            own = "projected outputs", s.attended, "btd", last
            last = self.add_layer("attended", *own, weight="W_o", bare=bare)
        if s.inputs.variant.block is not None:
            self.close(last)
        if "logsumexp" in s.inputs.wanted:
            before = "masked" if "masked" in self.stages else "scores"
            self.add("logsumexp", "log-sum-exp of the scores", s.answer[1], "bht", before)

    def close(self, last: str) -> None:
        """Add what follows attention in a block."""
        s, add, layer = self.s, self.add, self.add_layer
        add("added", "sums of tokens and attention", s.added, "btd", last, "xq", kind=Kind.SUM)
        add("renormed", "normed sums", s.renormed, "btd", "added", weight="gain_ff")
        hidden = "hidden numbers of the feed-forward", s.hidden, "btd"
        layer("hidden", *hidden, "renormed", weight="W_1")
        add("active", "activated numbers", s.active, "btd", "hidden")
        forwarded = "outputs of the feed-forward", s.forwarded, "btd"
        layer("forwarded", *forwarded, "active", weight="W_2")
        closed = "outputs of the block", s.output, "btd"
        add("closed", *closed, "forwarded", "added", kind=Kind.SUM)


def _name_adjusted(s: PipelineState) -> str:
    variant = s.inputs.variant
    if variant.softcap:
        return "limited scores"
    return f"scores with their {'bias for distances' if variant.alibi else 'learned numbers'}"


def find_last(stages: Stages, role: str) -> str:
    """Return the key of the last stage of queries, "q", of keys, "k", or of values, "v"."""
    return [key for key, stage in stages.items() if stage.role == role][-1]
