"""The steps of a history: operations on a module or other modules between its calls.

Each is a frozen value; `str()` describes it for a student.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from headcheck.properties.cases.case_tensors import make_tokens
from headcheck.properties.cases.case_transforms import shorten
from headcheck.properties.cases.fitting_mask import make_fitting_mask
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.counting import count
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import ModuleAdapter, construct
from headcheck.properties.subject import CallOptions, Pass
from headcheck.properties.terms.case import Case, InputContent, MaskForm, MemoryLayout
from headcheck.properties.violations.violation import ignore_crashes

TRAINING_SEED = 1
"""the seed of training calls, so that each call drops the same weights"""
TRAINING = CallOptions(training=True, seed=TRAINING_SEED)
WITH_GRADIENTS = CallOptions(grad="grad")
IN_INFERENCE = CallOptions(grad="inference")
MANY_CALLS = 32
"""Enough calls for a counter or a running statistic to show."""


def fit_for_histories(case: Case) -> Case:
    """Return a small case whose sizes all differ, so that none can be mistaken for another.

    In float32, so that moving a module to float64 and back loses nothing.
    """
    case = replace(case, batch=2, tokens=4, context_length=6, d_in=5, heads=2, head_dim=3)
    return keep_for_histories(case)


def fit_for_moves(case: Case) -> Case:
    """Return a case that shows the rounding of a softcap, of rotary angles, or of positions."""
    sizes = {"tokens": 40, "context_length": 42, "head_dim": 8}
    case = replace(fit_for_histories(case), **sizes)  # type: ignore[arg-type]  # sizes
    return replace(case, softcap=case.softcap and NOT_IN_BFLOAT16)


def keep_for_histories(case: Case) -> Case:
    """Return a case of these sizes with the options that histories need."""
    case = replace(case, dropout=0.5, sharpness=2, dtype="float32", mask_form=MaskForm.QUERY_KEY)
    return replace(case, content=InputContent.NORMAL, memory=MemoryLayout.CONTIGUOUS)


NOT_IN_BFLOAT16 = 1.3
"""a number whose rounding error in bfloat16 is a third of a percent"""


@dataclass(eq=False)
class HistoryState:
    """The module that is probed, and all others, which are kept alive."""

    context: LiveContext
    adapter: ModuleAdapter
    others: list[ModuleAdapter] = field(default_factory=list)


class HistoryStep(Protocol):
    """A step before a module is probed."""

    def take(self, state: HistoryState) -> None:
        """Take the step. Raises SubmissionFailed if the submission's code fails."""


def attempt(step: HistoryStep, state: HistoryState) -> None:
    """Take a step. Crashes are ignored, because other properties report them."""
    with ignore_crashes():
        step.take(state)


def build_fresh_module(context: LiveContext) -> ModuleAdapter:
    """Build a module with the case's own weights."""
    adapter = construct(context.harness.subject, context.contract, context.case)
    adapter.set(context.parameters)
    return adapter


@dataclass(frozen=True)
class Call:
    """Call the module with other tokens."""

    tokens: int
    batch: int
    options: CallOptions = CallOptions()  # noqa: RUF009  # it is frozen
    masked: bool = True

    def take(self, state: HistoryState) -> None:
        x, mask = _make_other_tokens(state.context, self.tokens, self.batch)
        state.adapter.forward(x, mask if self.masked else None, self.options)

    def __str__(self) -> str:
        mode = " in training" if self.options.training else ""
        sizes = _describe_sizes(self.tokens, self.batch)
        if self.options.times > 1:
            return f"{self.options.times} calls{mode} with {sizes}"
        mask = "" if self.masked else ", no mask"
        recording = {"grad": ", recording gradients", "inference": ", in inference mode"}
        return f"a call{mode} with {sizes}{mask}{recording.get(self.options.grad, '')}"


@dataclass(frozen=True)
class CallAtEveryLength:
    """Call the module with one token, two, three, and so on."""

    most: int

    def take(self, state: HistoryState) -> None:
        inputs = [_make_other_tokens(state.context, t, 1) for t in range(1, self.most + 1)]
        calls = [Pass(inputs=n, training=False, grad="no_grad") for n in range(self.most)]
        state.adapter.run_series(inputs, [torch.ones(1) for _ in inputs], calls)

    def __str__(self) -> str:
        return f"calls with 1 token, 2 tokens, up to {self.most}"


@dataclass(frozen=True)
class RefusedCall:
    """Call the module with tokens that are too wide for it, so that it raises."""

    options: CallOptions = CallOptions()  # noqa: RUF009  # it is frozen

    def take(self, state: HistoryState) -> None:
        context = state.context
        state.adapter.forward(torch.cat([context.x, context.x], dim=-1), context.mask, self.options)

    def __str__(self) -> str:
        mode = " in training" if self.options.training else ""
        return f"a call{mode} with tokens that are too wide, which raises"


@dataclass(frozen=True)
class Backward:
    """Compute gradients for other tokens."""

    tokens: int
    batch: int

    def take(self, state: HistoryState) -> None:
        x, mask = _make_other_tokens(state.context, self.tokens, self.batch)
        cotangent = torch.ones(state.context.compute_output_shapes(x)[0], dtype=torch.float64)
        state.adapter.vjp(x, cotangent, mask)

    def __str__(self) -> str:
        return f"a backward pass with {_describe_sizes(self.tokens, self.batch)}"


@dataclass(frozen=True)
class Build:
    """Build another module and call it."""

    case: Case
    differences: str
    """a description of the arguments that differ"""

    def take(self, state: HistoryState) -> None:
        harness, contract = state.context.harness, state.context.contract
        other = construct(harness.subject, contract, self.case)
        state.others.append(other)
        drawn = LiveContext(harness, contract, self.case)
        other.set(drawn.parameters)
        _call_both_ways(other, drawn.x, drawn.mask)

    def __str__(self) -> str:
        return f"another module, with {self.differences} and other weights, is built and called"


@dataclass(frozen=True)
class Rebuild:
    """Build the module itself again, after the others."""

    def take(self, state: HistoryState) -> None:
        state.others.append(state.adapter)
        state.adapter = build_fresh_module(state.context)

    def __str__(self) -> str:
        return "this module is built after it"


@dataclass(frozen=True)
class Load:
    """Load other weights into the module, and then its own again."""

    def take(self, state: HistoryState) -> None:
        context, adapter = state.context, state.adapter
        adapter.load(context.other_parameters)
        adapter.forward(context.x, context.mask, CallOptions())
        adapter.load(context.parameters)

    def __str__(self) -> str:
        return "load_state_dict() with other weights, a call, load_state_dict() with the old ones"


@dataclass(frozen=True)
class Move:
    """Call a new module in another dtype first, and then move it to its own dtype."""

    dtype: str = "float64"

    def take(self, state: HistoryState) -> None:
        context = state.context
        state.others.append(state.adapter)
        state.adapter = adapter = build_fresh_module(context)
        adapter.module.move(self.dtype, None)
        try:
            moved = replace(adapter, case=replace(context.case, dtype=self.dtype))
            moved.forward(context.x, context.mask, CallOptions())
        finally:
            adapter.module.move(context.case.dtype, None)
            adapter.current_parameters = None  # the other dtype may have rounded them

    def __str__(self) -> str:
        return f"the module is built, called in {self.dtype} first, and moved to float32 then"


@dataclass(frozen=True)
class Copy:
    """Give a copy of the module other weights and call it."""

    way: str

    def take(self, state: HistoryState) -> None:
        context = state.context
        copy = state.adapter.copy(self.way)
        state.others.append(copy)
        copy.set(context.other_parameters)
        _call_both_ways(copy, context.x, context.mask)

    def __str__(self) -> str:
        made = {"deepcopy": "a deep copy", "state_dict": "a copy by its state_dict"}[self.way]
        return f"{made} gets other weights and is called"


def make_calls(context: LiveContext) -> list[HistoryStep]:
    """List calls of other sizes, in training and with gradients, and one that raises."""
    t, b, has = context.case.tokens, context.case.batch, context.contract.has
    longest = min(context.case.context_length, t + 2) if has(Capability.CONTEXT) else t + 2
    more = b + 1 if has(Capability.BATCH) else b
    steps: list[HistoryStep] = [
        *(Call(tokens, b) for tokens in sorted({1, t - 1, t, longest})),
        Call(t, more),
        Call(t - 1, b, TRAINING),
        Call(t, b, WITH_GRADIENTS),
        Backward(t - 1, b),
        Call(1, 1, CallOptions(times=MANY_CALLS)),
    ]
    if has(Capability.MODULE):
        steps.append(RefusedCall())
    if has(Capability.TAKES_MASK):
        steps.append(Call(t, b, masked=False))
    return steps


def make_first_calls(context: LiveContext) -> list[HistoryStep]:
    """List possible first calls of a module: in every mode, long, short, and one that fails."""
    t, b, has = context.case.tokens, context.case.batch, context.contract.has
    longest = context.case.context_length if has(Capability.CONTEXT) else t + 2
    more = b + 1 if has(Capability.BATCH) else b
    steps: list[HistoryStep] = [
        Call(longest, b),
        Call(1, 1),
        Call(t, more, replace(TRAINING, grad="grad")),
        Call(t, b, WITH_GRADIENTS),
        Call(t, b, IN_INFERENCE),
        Call(longest, b, replace(IN_INFERENCE, training=True, seed=TRAINING_SEED)),
        Backward(longest, b),
    ]
    if has(Capability.MODULE):
        steps += [RefusedCall(), RefusedCall(TRAINING)]
    if has(Capability.TAKES_MASK):
        steps.append(Call(t, b, masked=False))
    return steps


def make_evaluations(context: LiveContext) -> list[HistoryStep]:
    """List the evaluations that may happen between two calls in training."""
    t, b = context.case.tokens, context.case.batch
    return [
        Call(t, b),
        Call(1, b),
        Call(t - 1, b, TRAINING),
        Backward(t, b),
        RefusedCall(TRAINING),
        Call(1, 1, replace(TRAINING, times=MANY_CALLS)),
    ]


def make_other_modules(context: LiveContext) -> list[HistoryStep]:
    """List other modules: with the same arguments again, and with each one changed."""
    case, contract = context.case, context.contract
    changes: tuple[Mapping[str, object], ...] = (
        {},
        {"heads": case.heads + 1},
        {"heads": 1},
        {"head_dim": case.head_dim + 1},
        {"d_in": case.d_in + 2},
        {"context_length": case.context_length + 2},
        {"context_length": 2, "tokens": 2},
        {"dropout": 0.1},
        {"bias": not case.bias},
        {"group": case.heads},
        {"window": case.window + 1},
        {"softcap": 2 * case.softcap},
    )
    seeded = replace(case, seed=case.seed + 1)
    others = dict.fromkeys(contract.fit(replace(seeded, **each)) for each in changes)  # type: ignore[arg-type]  # as the fields
    return [Build(other, _describe_differences(contract, case, other)) for other in others]


def make_transfers(context: LiveContext) -> list[HistoryStep]:
    """List the steps that load, move or copy."""
    # Without a statement a scale may be kept in a buffer, which bfloat16 and back rounds.
    rough = [Move("bfloat16")] if context.contract.has(Capability.STATED) else []
    return [Load(), Move(), *rough, Copy("deepcopy"), Copy("state_dict")]


def _describe_differences(contract: Contract, case: Case, other: Case) -> str:
    """Describe the constructor's arguments that differ between two cases."""
    mine = dict(_flatten_arguments(contract.build_arguments(case)))
    theirs = dict(_flatten_arguments(contract.build_arguments(other)))
    differing = (n for n in {**mine, **theirs} if mine.get(n) != theirs.get(n))
    changed = [f"{n}={theirs[n]}" if n in theirs else f"no {n}" for n in differing]
    return ", ".join(changed) or "the same arguments"


def _flatten_arguments(arguments: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield arguments by name, including those in a config."""
    for name, value in arguments.items():
        yield from value.items() if isinstance(value, Mapping) else [(name, value)]


def _call_both_ways(adapter: ModuleAdapter, x: Tensor, mask: Tensor | None) -> None:
    for options in (CallOptions(), TRAINING):
        adapter.forward(x, mask, options)


def _make_other_tokens(
    context: LiveContext, tokens: int, batch: int
) -> tuple[Tensor, Tensor | None]:
    """Return this many other tokens, if any number is taken, and a mask that fits them."""
    case = shorten(context.contract, replace(context.case, batch=batch), tokens)
    return make_tokens(case, context.contract, "x2"), make_fitting_mask(context.contract, case)


def _describe_sizes(tokens: int, batch: int) -> str:
    return f"{count(tokens, 'token')}, batch {batch}"
