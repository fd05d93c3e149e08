"""The requirements of an exercise, as data.

All exercises are one computation (project, split, score, mask, normalise, mix, merge, project). A
contract states the differences: the entry point and its arguments, the places of the canonical
parameters of `reference.Parameters` in the student's module, whether there is a mask, and the
results.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from headcheck.properties.contracts.argument import CONSTANT as CONSTANT
from headcheck.properties.contracts.argument import DISPENSABLE
from headcheck.properties.contracts.argument import MADE as MADE
from headcheck.properties.contracts.argument import Argument as Argument
from headcheck.properties.contracts.argument import list_numbers as list_numbers
from headcheck.properties.contracts.parameter_mapping import HeadSizes, Packing, ParameterMapping
from headcheck.properties.parts import PARTS
from headcheck.properties.parts.block import Activation as Activation
from headcheck.properties.parts.context_width import READING
from headcheck.properties.parts.features import FeatureMap as FeatureMap
from headcheck.properties.parts.norms import GAINS, LENGTH_ALONE
from headcheck.properties.parts.norms import Norm as Norm
from headcheck.properties.parts.norms import NormOver as NormOver
from headcheck.properties.parts.positions import LINEAR as LINEAR
from headcheck.properties.parts.positions import ROTARY as ROTARY
from headcheck.properties.parts.positions import Positions as Positions
from headcheck.properties.parts.positions import StatedScaling as StatedScaling
from headcheck.properties.parts.relative import OffsetOrder as OffsetOrder
from headcheck.properties.parts.relative import OffsetStart as OffsetStart
from headcheck.properties.parts.relative import count_rows
from headcheck.properties.parts.weight import BY_HEAD
from headcheck.properties.terms.call_form import USUAL, CallForm
from headcheck.properties.terms.capability import Capability as Capability
from headcheck.properties.terms.case import Case, InputContent, MaskForm, MaskType, MemoryLayout
from headcheck.properties.terms.size_rules import BadSizes, SizeRules
from headcheck.properties.violations.violation import Violation, ViolationKind

if TYPE_CHECKING:  # so that listing exercises does not import torch
    from torch import Tensor

    from headcheck.properties.subject import Value
    from headcheck.reference import Parameters


class Entry(StrEnum):
    """What kind of object the submission defines."""

    CLASS = "class"
    BUILDER = "function that returns a module"
    FUNCTION = "function of tensors"
    TRANSFER = "function that moves weights from one module into another"


class Returns(StrEnum):
    """What a call returns."""

    OUTPUT = "the output"
    OUTPUT_AND_WEIGHTS = "the output and the attention weights"
    OUTPUT_AND_LOGSUMEXP = "the output and the log-sum-exp of the scores"
    WEIGHTS_TWICE = "the attention weights, computed in two ways"


FIXED_WITHOUT: tuple[tuple[Capability, str, object], ...] = (
    (Capability.BATCH, "batch", 1),
    (Capability.HEADS, "heads", 1),
    (Capability.BIAS_OPTION, "bias", False),
    (Capability.DROPOUT, "dropout", 0.0),
    (Capability.MASK, "mask_form", MaskForm.NONE),
    (Capability.CAUSAL_OPTION, "causal", False),
    (Capability.STRIDED, "memory", MemoryLayout.CONTIGUOUS),
    *(
        (capability, quantity.name, quantity.absent)
        for part in PARTS
        for capability in part.brings
        for quantity in part.quantities
    ),
)
"""The value of a case's field if the contract lacks a capability."""


@functools.cache
def _list_fixed(capabilities: frozenset[Capability]) -> Mapping[str, object]:
    """Return the fields of cases that have one value without the other capabilities."""
    fixed = {name: value for needed, name, value in FIXED_WITHOUT if needed not in capabilities}
    if Capability.PADDING in capabilities:
        fixed.pop("mask_form", None)
    return fixed


LARGE_CONTENTS = frozenset({InputContent.OUTLIER, InputContent.HUGE})
"""kinds of tokens with which the exponentials of some scores overflow"""

SMALL_CONTENTS = frozenset({InputContent.ZERO, InputContent.ALL_ZERO, InputContent.SUBNORMAL})
"""kinds of tokens whose queries and keys have no length by which they could be divided"""

SWAPPED = {"W_q": "W_k", "W_k": "W_q", "b_q": "b_k", "b_k": "b_q"}
"""the parameters of queries and keys, each with its counterpart"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The demands of one exercise on one entry point."""

    name: str
    entry: Entry = Entry.CLASS
    arguments: tuple[Argument, ...] = ()
    mappings: tuple[ParameterMapping, ...] = ()
    variables: tuple[Argument, ...] = ()
    """variables of the submission that hold sizes, and are set like arguments"""
    call: tuple[str, ...] = ("x",)
    returns: Returns = Returns.OUTPUT
    call_form: CallForm = USUAL
    transfer: tuple[Contract, Contract] | None = None
    capabilities: frozenset[Capability] = frozenset()
    square: bool = False
    sizes: Mapping[str, int] | None = None
    scale: float | None = None
    positions: Positions = Positions.NONE
    rotary_base: float = 10_000.0
    """the base of rotary angles: pair i of d coordinates rotates by base^(-2i/d) radians a token"""
    rotary_share: float = 1.0
    """the share of each head that rotates, from its first dimension on"""
    relative_buckets: int = 32
    """how many buckets of distances there are, with a learned number each for every head"""
    relative_farthest: int = 128
    """the distance from which on all share one bucket"""
    relative_scaled: bool = False
    """whether learned numbers are added to scores before these are scaled"""
    offset_order: OffsetOrder = OffsetOrder.QUERY_MINUS_KEY
    """the order of the learned numbers for offsets in a window"""
    offset_start: OffsetStart = OffsetStart.SMALLEST
    """the offset in a window that has the first of the learned numbers"""
    rotary_scaling: StatedScaling | None = None
    """how rotary frequencies are scaled for longer sequences"""
    feature_map: FeatureMap = FeatureMap.NONE
    feature_epsilon: float = 0.0
    """the number that is added to the sum of products of features, by which they are divided"""
    lambda_init: float = 0.8
    """the initial value of the lambdas of differential attention"""
    norm: Norm = Norm.NONE
    """the norm of queries and keys, before positions rotate them"""
    norm_over: NormOver = NormOver.HEAD
    """whether the norm averages over each head, or over all heads side by side"""
    norm_epsilon: float = 0.0
    """the number that the norm adds to the mean square, or to the variance; 0 means the dtype's
    machine epsilon"""
    norm_gain_from: float = 0.0
    """the number that is added to the stored gain: 1 if a module stores the gain minus 1"""
    output_dropout: bool = False
    """whether dropout also acts behind the output layer"""
    head_norm: Norm = Norm.NONE
    """the norm of what heads give, before it goes through the output layer"""
    head_norm_over: NormOver = NormOver.HEAD
    """whether this norm averages over each head, or over all heads side by side"""
    head_norm_epsilon: float = 0.0
    """the number that this norm adds to the mean square, or to the variance; 0 means the dtype's
    machine epsilon"""
    head_norm_factor: float = 1.0
    """the number by which the result is multiplied"""
    token_norm: Norm = Norm.NONE
    """the norm of a block's tokens, before attention and before the feed-forward"""
    token_norm_epsilon: float = 1e-5
    """the number that the norm of tokens adds to the mean square, or to the variance"""
    activation: Activation = Activation.NONE
    """the activation of a block's feed-forward"""
    hidden_factor: int = 4
    """the width of a feed-forward between its layers, as a multiple of a token's width"""
    size_rules: SizeRules | None = None
    """the rules that were passed to `with_sizes`, and the rules that follow from them"""
    waived: tuple[str, ...] = ()
    """names of applicable properties that are not checked"""

    def __hash__(self) -> int:
        """Return a hash that costs little, for caches of what follows from a contract."""
        return hash((self.name, self.capabilities))

    def has(self, *capabilities: Capability) -> bool:
        return self.capabilities.issuperset(capabilities)

    @property
    def callee(self) -> Contract:
        """The contract of the module that is called; if weights are transferred, the target's."""
        return self if self.transfer is None else self.transfer[1]

    @property
    def dispensable(self) -> tuple[Argument, ...]:
        """The arguments without which most properties still make sense."""
        return tuple(a for a in self.arguments if a.quantity in DISPENSABLE)

    def drop_argument(self, argument: Argument) -> Contract:
        """Return the contract with a constructor that does not take this argument."""
        kept = tuple(other for other in self.arguments if other is not argument)
        lost = DISPENSABLE[argument.quantity]
        return replace(self, arguments=kept, capabilities=self.capabilities - lost)

    @property
    def is_handed_parameters(self) -> bool:
        """Whether each call gets the parameters, or queries, keys and values, as inputs."""
        return self.entry is Entry.FUNCTION and self.call_form == USUAL

    def stores(self, name: str) -> bool:
        """Whether an implementation keeps this canonical parameter."""
        return any(name in mapping.holds for mapping in self.mappings)

    @property
    def maps(self) -> int:
        """How many softmaxes each head has: two if a share of the second is subtracted."""
        return 2 if self.stores("lambdas") else 1

    @property
    def gates_heads(self) -> bool:
        """Whether a gate opens for whole heads rather than for single numbers."""
        return any(m.packing is Packing.HEADWISE for m in self.mappings)

    @property
    def gains_by_head(self) -> bool:
        """Whether each head has a gain of its own, rather than one gain for all."""
        stored = (m for m in self.mappings if m.holds[0] in GAINS)
        whole = self.norm_over is NormOver.PROJECTION
        return whole or any(m.packing in BY_HEAD for m in stored)

    @property
    def head_gains_by_head(self) -> bool:
        """Whether each head has a gain of its own in the norm of what heads give."""
        stored = (m.packing for m in self.mappings if m.holds[0] in ("gain_heads", "shift_heads"))
        whole = self.head_norm_over is NormOver.PROJECTION
        return whole or any(each in (*BY_HEAD, Packing.HEADS) for each in stored)

    def has_biases(self, case: Case) -> bool:
        """Whether queries, keys and values have a bias in this case."""
        return self.has(Capability.BIAS) and (case.bias or not self.has(Capability.BIAS_OPTION))

    def swap_query_and_key(self) -> Contract | None:
        """Return the contract with the names of the query and key layers swapped.

        None if they are not separate layers of the same tokens; in a fused layer the statement
        fixes their order.
        """
        separate = all(len(mapping.holds) == 1 for mapping in self.mappings)
        layers = self.has(Capability.PROJECTED, Capability.MODULE)
        alike = self.entry is not Entry.TRANSFER and not self.has(Capability.LATENT)
        if not (separate and layers and alike):
            return None
        names = (mapping.holds[0] for mapping in self.mappings)
        swapped = zip(self.mappings, (SWAPPED.get(name, name) for name in names), strict=True)
        mappings = (replace(mapping, holds=(name,)) for mapping, name in swapped)
        return replace(self, mappings=tuple(mappings))

    def fit(self, case: Case) -> Case:
        """Return the nearest case that the contract allows."""
        changes = dict(_list_fixed(self.capabilities))
        is_none = changes.get("mask_form", case.mask_form) is MaskForm.NONE
        if is_none or self.call_form.mask.dtype is not None:
            changes["mask_type"] = MaskType.BOOL  # no mask has no type: one case, not two
        if self.has(Capability.ATTENTION) and not self.has(Capability.STABLE):
            changes["sharpness"] = min(case.sharpness, 2)
            if case.content in LARGE_CONTENTS:
                changes["content"] = InputContent.NORMAL
        if self.norm_epsilon == LENGTH_ALONE and case.content in SMALL_CONTENTS:
            changes["content"] = InputContent.NORMAL
        forms = self.call_form.mask.forms
        if forms and changes.get("mask_form", case.mask_form) not in (MaskForm.NONE, *forms):
            changes["mask_form"] = forms[0]
        changes.update(self.sizes or {})
        case = case.change(**changes)
        if self.size_rules is not None:
            case = self.size_rules.fit(case)
        if self.square:
            case = case.change(d_in=case.d_out)
        if self.call_form.wide_output:
            case = case.change(d_in=max(case.d_in, case.d_out + 1))
        case = case.change(**self._choose_quantities(case))
        if not self.has(Capability.CONTEXT):
            return case.change(context_length=case.tokens)
        return case.change(tokens=min(case.tokens, case.context_length))

    def _choose_quantities(self, case: Case) -> dict[str, object]:
        """Return the sizes and limits of the contract's parts, which a case may leave open."""
        rules = self.size_rules or SizeRules()
        own = (part for part in PARTS if part.quantities and part.brings <= self.capabilities)
        return {each.name: each.choose(rules, case) for part in own for each in part.quantities}

    def with_sizes(self, rules: SizeRules) -> Contract:
        """Return the contract of an implementation that supports only these sizes.

        Raises BadSizes if the contract allows none of these sizes.
        """
        absent = {n: v for needed, n, v in FIXED_WITHOUT if needed not in self.capabilities}
        fixed = {n: v for n, v in absent.items() if n in ("batch", "heads")}
        same = (("tokens", "context_length"),) * (not self.has(Capability.CONTEXT))
        same += (("d_in", "d_out"),) * self.square
        if self.size_rules is not None:
            rules = SizeRules((*self.size_rules.rules, *rules.rules))
        adapted = rules.adapt({**fixed, **(self.sizes or {})}, same)  # type: ignore[dict-item]
        limited = replace(self, size_rules=adapted)
        try:
            limited.fit(Case(tokens=1, context_length=1))
        except BadSizes as error:
            raise BadSizes(f"{self.name} has no sizes that keep `{rules}`") from error
        return limited

    def describe_parameter(self, name: str) -> str:
        """Name a canonical parameter and where it is stored: "W_q (in `W_query.weight`)"."""
        paths = [m.path.format(head="<i>") for m in self.mappings if name in m.holds]
        return f"{name} (in `{paths[0]}`)" if paths else name

    def build_arguments(self, case: Case) -> dict[str, Value]:
        """Return the arguments of the constructor, in order."""
        values = ((argument, argument.get_value(case)) for argument in self.arguments)
        return {a.name: v for a, v in values if not (a.optional and v == a.default)}

    def build_variables(self, case: Case) -> dict[str, int | float | bool]:
        """Return the values for the submission's variables."""
        return list_numbers(self.variables, case)

    @functools.lru_cache(maxsize=1024)  # noqa: B019  # there are few contracts
    def get_parameter_shapes(self, case: Case) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of all parameters in this case, by attribute path."""
        return {
            mapping.path.format(head=head): mapping.compute_shape(self.get_head_sizes(case), head)
            for mapping, head in self._iter_mappings(case)
        }

    def get_head_sizes(self, case: Case) -> HeadSizes:
        """Return the sizes on which the shapes of parameters depend in this case."""
        return HeadSizes(
            d_in=case.d_in,
            heads=case.heads,
            head_dim=case.head_dim,
            kv_heads=case.kv_heads,
            d_latent=case.d_latent,
            rope_dim=case.rope_dim,
            d_context=case.d_context,
            d_output=case.d_in if self.call_form.wide_output else 0,
            d_hidden=self.hidden_factor * case.d_in,
            buckets=count_rows(self, case),
            maps=self.maps,
            gains_by_head=self.gains_by_head,
            head_gains_by_head=self.head_gains_by_head,
        )

    def _iter_mappings(self, case: Case) -> Iterator[tuple[ParameterMapping, int | None]]:
        """Yield the mappings for this case's parameters, each with its head if it has only one."""
        for mapping in self.mappings:
            if self.has_biases(case) or not mapping.is_bias:
                heads = case.kv_heads if mapping.is_shared else case.heads
                for head in range(heads) if "{head}" in mapping.path else (None,):
                    yield mapping, head

    def to_stored(self, parameters: Parameters, case: Case) -> list[tuple[str, Tensor]]:
        """Return canonical parameters as the implementation stores them, with attribute paths."""
        sizes = self.get_head_sizes(case)
        return [
            (
                mapping.path.format(head=head),
                mapping.pack([getattr(parameters, name) for name in mapping.holds], sizes, head),
            )
            for mapping, head in self._iter_mappings(case)
        ]

    def to_canonical(self, stored: Mapping[str, Tensor], case: Case) -> dict[str, Tensor]:
        """Invert `to_stored`, by canonical name. It is linear, so it maps gradients as well.

        Raises Violation if a tensor is missing or has another shape.
        """
        whole = self.unpack(stored, case)
        read = READING if case.d_context else frozenset()
        own = {n: t[:, : case.d_in] if n in read else t for n, t in whole.items()}
        if not self.call_form.wide_output:
            return own
        return {n: t[: case.d_out] if n.endswith("_o") else t for n, t in own.items()}

    def unpack(self, stored: Mapping[str, Tensor], case: Case) -> dict[str, Tensor]:
        """Return canonical parameters as `to_canonical` does, with all columns that layers have."""
        import torch

        blocks: dict[str, list[Tensor]] = {}
        sizes = self.get_head_sizes(case)
        for mapping, head in self._iter_mappings(case):
            path, shape = mapping.path.format(head=head), mapping.compute_shape(sizes, head)
            got = f"shape {tuple(stored[path].shape)}" if path in stored else "nothing"
            if got != f"shape {shape}":
                raise Violation(ViolationKind.SHAPE, f"shape {shape}", got, f"`{path}`")
            pieces = mapping.unpack(stored[path], sizes)
            for name, piece in zip(mapping.holds, pieces, strict=True):
                blocks.setdefault(name, []).append(piece)
        return {n: torch.cat(pieces, dim=int(n == "W_o")) for n, pieces in blocks.items()}
