"""A mistake on an example with round numbers, small enough to be followed by hand.

The correct pipeline and the one with the faulty step run on a few small inputs. The example shows
the first step at which their results visibly differ: its input, the right result, and the result
with the mistake. No number is written by hand, so an example stays true if the steps of the mistake
change. A mistake that shows on none of the inputs has no example.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import ROTARY, Capability, Contract, Returns
from headcheck.properties.counting import count
from headcheck.properties.mistakes.catalogue import Mistake
from headcheck.properties.mistakes.catalogue.dropout import never, on_weights
from headcheck.properties.mistakes.example_inputs import (
    DROPPED_NUMBERS,
    ExampleSetting,
    list_numbers,
    make_inputs,
    set_example,
)
from headcheck.properties.mistakes.example_stages import (
    BLOCK_STAGES,
    CROSSED_STAGES,
    DROPPED_STAGES,
    FEATURED_STAGES,
    LATE_STAGES,
    LATENT_STAGES,
    PRODUCTS,
    ROTARY_STAGES,
    STAGES,
    SUMMED_STAGES,
    Stage,
)
from headcheck.properties.mistakes.mistake_table import NAN_WORKAROUNDS
from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    SHAPE_ERRORS,
    AttentionInputs,
    Dropping,
    Pipeline,
    PipelineState,
    StepOverrides,
    run_pipeline,
)
from headcheck.properties.parts import WEIGHTS

MAX_EXAMPLES = 1024
"""how many recently used examples are cached"""
VISIBLE = 0.03
"""the smallest difference between two numbers that a reader notices at a glance"""
RATES = (0.5, 0.25)
"""the dropout rates to try; the first rate gives rounder numbers"""
DRAWS = 16
"""how many draws of dropout are tried to find one that shows the mistake"""
HEADS_APART = "|"
"""the sign between the numbers of two heads"""

Shown = tuple[tuple[str, ...], ...]
"""a matrix as it is displayed: a row for each token"""
Step = Callable[[PipelineState], object]


@dataclass(frozen=True)
class WorkedExample:
    """The input of a step, its right result, and its result with a mistake."""

    sizes: str
    """the sizes of the example in words (2 tokens, queries of width 4)"""
    given: str
    """the name of the input; `result` names the output"""
    result: str
    before: Shown
    right: Shown
    wrong: Shown


# ----------------------------------------------------------------------------------- examples


def work_example(
    contract: Contract, mistake: Mistake, ways: Sequence[Sequence[Pipeline]] = ()
) -> WorkedExample | None:
    """Return a small example of a mistake; None if it shows on none of a few small inputs.

    If a mistake can be made in several ways, only the ways in `ways` are considered, or all of them
    if `ways` is empty. If their examples differ, it is unknown what the code computes, and there is
    no example.
    """
    if not contract.has(Capability.ATTENTION):
        return None
    setting, made = set_example(contract), [(each, CORRECT) for each in mistake.variants]
    if ways:
        pipelines = [pipeline for way in ways for pipeline in way]
        made = list(_iter_made(mistake, pipelines))
    examples = {_work_example(setting, mistake, tuple(v.items()), base) for v, base in made}
    examples |= {_work_dropping_example(setting, each) for each in mistake.droppings}
    return examples.pop() if len(examples) == 1 else None


def _iter_made(
    mistake: Mistake, pipelines: Sequence[Pipeline]
) -> Iterator[tuple[StepOverrides, Pipeline]]:
    """Yield the variants of a mistake that pipelines contain, each with its base pipeline.

    The base is the correct pipeline, or a pipeline that works around NaN.
    """
    for pipeline, variant in product(pipelines, mistake.variants):
        if _is_in(variant, pipeline):
            around = next((each for each in NAN_WORKAROUNDS if _is_in(each, pipeline)), {})
            yield variant, CORRECT.override(around)


def _is_in(overrides: StepOverrides, pipeline: Pipeline) -> bool:
    return all(getattr(pipeline, step) is function for step, function in overrides.items())


@lru_cache(MAX_EXAMPLES)
def _work_example(
    setting: ExampleSetting,
    mistake: Mistake,
    overrides: tuple[tuple[str, Step], ...],
    base: Pipeline,
) -> WorkedExample | None:
    with torch.no_grad():
        return _choose_roundest(_iter_examples(setting, mistake, dict(overrides), base))


@lru_cache(MAX_EXAMPLES)
def _work_dropping_example(setting: ExampleSetting, dropping: Dropping) -> WorkedExample | None:
    with torch.no_grad(), torch.random.fork_rng(devices=()):
        return _choose_roundest(_iter_dropping_examples(setting, dropping))


def _choose_roundest(examples: Iterator[WorkedExample]) -> WorkedExample | None:
    """Return the first example that begins with whole numbers, or else the first one."""
    first = None
    for example in examples:
        first = first or example
        if not any("." in number for row in example.before for number in row):
            return example
    return first


def _iter_examples(
    setting: ExampleSetting, mistake: Mistake, overrides: StepOverrides, base: Pipeline
) -> Iterator[WorkedExample]:
    yield from _iter_examples_in_mode(setting, mistake, overrides, base)
    if setting.has(Capability.CAUSAL_OPTION):
        hidden = replace(setting, case=replace(setting.case, causal=True))
        for each in _iter_examples_in_mode(hidden, mistake, overrides, base):
            yield replace(each, sizes=f"{each.sizes}, causal")


def _iter_examples_in_mode(
    setting: ExampleSetting, mistake: Mistake, overrides: StepOverrides, base: Pipeline
) -> Iterator[WorkedExample]:
    ends = bool(overrides.keys() & {"finish", "close"})
    finishes = ends and setting.has(Capability.OUTPUT_PROJECTION)
    faulty, stages = base.override(overrides), _choose_stages(setting.contract)
    for numbers in list_numbers(setting) if overrides else ():
        if numbers.heads > 1 or Capability.HEADS not in mistake.needs:
            inputs = make_inputs(setting, numbers, finishes=finishes)
            yield from _compare(inputs, faulty, stages if "use" not in overrides else LATE_STAGES)


def _choose_stages(contract: Contract) -> Sequence[Stage]:
    """Return the stages at which an attention of this kind may differ."""
    by_part = (
        (contract.returns is Returns.OUTPUT_AND_LOGSUMEXP, SUMMED_STAGES),
        (contract.has(Capability.BLOCK), BLOCK_STAGES),
        (contract.has(Capability.BESIDE), LATENT_STAGES),
        (contract.has(Capability.CROSS), CROSSED_STAGES),
        (contract.has(Capability.FEATURES), FEATURED_STAGES),
        (contract.positions in ROTARY, ROTARY_STAGES),
    )
    return next((stages for has, stages in by_part if has), STAGES)


def _iter_dropping_examples(setting: ExampleSetting, dropping: Dropping) -> Iterator[WorkedExample]:
    for numbers in DROPPED_NUMBERS:
        inputs = make_inputs(setting, numbers, finishes=False)
        inputs = replace(inputs, may_attend=inputs.may_attend if inputs.causal else None)
        right = on_weights if setting.has(Capability.DROPOUT) else never
        yield from _compare_dropping(inputs, right, dropping)


def _compare(
    inputs: AttentionInputs, faulty: Pipeline, stages: Sequence[Stage]
) -> Iterator[WorkedExample]:
    """Yield the first stage at which a pipeline visibly differs from the correct one, if any."""
    try:
        right, wrong = run_pipeline(CORRECT, inputs), run_pipeline(faulty, inputs)
    except SHAPE_ERRORS:
        return
    for stage in stages:
        one, other = stage.take(right), stage.take(wrong)
        if _differ(one, other):
            if stage.given == "scores" and _differ(right.scores[0], wrong.scores[0]):
                given = PRODUCTS["q·k"] if inputs.variant.features else "q·k"
                stage = replace(stage, given=given, take_given=lambda s: s.raw_scores[0])
            if other.dim() == 3 and one.shape[-2] == other.shape[-2]:
                yield _show(inputs, stage, right, one, other)
            return


def _differ(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return True
    return not bool(torch.isclose(one, other, rtol=0, atol=VISIBLE, equal_nan=True).all())


def _compare_dropping(
    inputs: AttentionInputs, right: Dropping, dropping: Dropping
) -> Iterator[WorkedExample]:
    """Yield the draw that shows a mistake best, if possible with equal drops in both results."""
    for training, rate in product((True, False), RATES):
        correct, faulty = (how(CORRECT, rate, training) for how in (right, dropping))
        drawn = (_draw(inputs, correct, faulty, seed) for seed in range(DRAWS))
        told = [each for each in drawn if each is not None]
        if told:
            example = min(told, key=_count_other_zeros)
            mode = "in training" if training else "in evaluation"
            at = "" if right is never else f"dropout {rate:g}, "
            yield replace(example, sizes=f"{example.sizes}, {at}{mode}")
            return


def _draw(
    inputs: AttentionInputs, correct: Pipeline, faulty: Pipeline, seed: int
) -> WorkedExample | None:
    right, wrong = (_run_seeded(pipeline, inputs, seed) for pipeline in (correct, faulty))
    for stage in DROPPED_STAGES:
        one, other = stage.take(right), stage.take(wrong)
        if _differ(one, other):
            given = stage.take_given(right)
            partly = _is_partly_dropped(given, one) or _is_partly_dropped(given, other)
            shown = partly and bool(one.any()) and bool(other.any())
            return _show(inputs, stage, right, one, other) if shown else None
    return None


def _is_partly_dropped(given: Tensor, t: Tensor) -> bool:
    """Whether dropout set some nonzero numbers to zero, but not all of them."""
    there = given != 0 if given.shape == t.shape else torch.ones_like(t, dtype=torch.bool)
    return bool((t[there] == 0).any()) and bool(t[there].any())


def _run_seeded(pipeline: Pipeline, inputs: AttentionInputs, seed: int) -> PipelineState:
    torch.manual_seed(seed)
    return run_pipeline(pipeline, inputs)


def _count_other_zeros(example: WorkedExample) -> int:
    """Count the places where only one of the two results is zero."""
    pairs = zip(example.right, example.wrong, strict=True)
    return sum((a == "0") != (b == "0") for r, w in pairs for a, b in zip(r, w, strict=True))


# ------------------------------------------------------------------------------------ display


def _show(
    inputs: AttentionInputs, stage: Stage, right: PipelineState, one: Tensor, other: Tensor
) -> WorkedExample:
    return WorkedExample(
        sizes=", ".join(_list_sizes(inputs, stage)),
        given=stage.given,
        result=stage.result,
        before=_format_matrix(stage.take_given(right)),
        right=_format_matrix(one),
        wrong=_format_matrix(other),
    )


def _list_sizes(inputs: AttentionInputs, stage: Stage) -> Iterator[str]:
    """Describe the sizes of an example that its numbers do not show."""
    yield count(inputs.tokens, "token")
    if inputs.keys != inputs.tokens:
        yield count(inputs.keys, "key")
    if inputs.window:
        yield f"window = {inputs.window}"
    if inputs.block:
        yield f"blocks of {count(inputs.block, 'key')}"
    for name, numbers in inputs.parameters.items():
        if (show := WEIGHTS[name].show_example) is not None:
            yield show([_format_number(number) for number in numbers.tolist()])
    if inputs.heads > 1:
        yield f"{count(inputs.heads, 'head')} of width {inputs.head_dim}"
    elif not stage.result.startswith("tokens"):
        yield f"queries of width {inputs.head_dim}"
    if inputs.variant.beside:
        yield f"with {inputs.variant.beside} turned numbers beside each head"
    if inputs.may_attend is not None and not inputs.causal:
        yield "a causal mask"


def _format_matrix(heads: Tensor) -> Shown:
    """Format numbers, a row for each token, the heads side by side."""
    rows = zip(*heads.tolist(), strict=True)
    return tuple(tuple(_format_row(row)) for row in rows)


def _format_row(heads: Sequence[Sequence[float]]) -> Iterator[str]:
    for place, numbers in enumerate(heads):
        yield from (HEADS_APART,) * (place > 0)
        yield from map(_format_number, numbers)


def _format_number(number: float) -> str:
    if math.isfinite(number):
        rounded = round(number, 2) + 0.0  # −0 becomes 0
        return f"{rounded:.2f}".rstrip("0").rstrip(".")
    return "nan" if math.isnan(number) else "−∞" if number < 0 else "∞"
