"""A mistake on an example with round numbers, small enough to be followed by hand.

Both pipelines, the correct one and the one with the faulty step, are run on a few small inputs, and
the first step at which their results visibly part is shown: what goes into it, what comes out of
it, and what comes out by the mistake. No number is written by hand, so an example is true of the
mistake whatever becomes of its steps; of a mistake that shows on none of the inputs there is none.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import dropwhile, product

import torch
from torch import Tensor

from properties.case import Case
from properties.contract import Capability, Contract
from properties.mistakes.catalogue import Mistake
from properties.mistakes.pipeline import (
    CORRECT,
    SHAPE_ERRORS,
    AttentionInputs,
    Dropping,
    Pipeline,
    PipelineState,
    StepOverrides,
    run_pipeline,
)
from properties.mistakes.steps.dropout import never, on_weights
from properties.oracle import get_scale
from reference import Parameters, causal_mask

HEAD_DIM = 4
"""the width of a head, which has a whole root"""
VISIBLE = 0.03
"""two numbers that differ by less are not told apart at a glance"""
RATES = (0.5, 0.25)
"""of dropout; the first one has the rounder numbers"""
DRAWS = 16
"""how many draws of dropout are looked at for one that shows the mistake"""
HEADS_APART = "|"
"""what stands between the numbers of two heads"""

Shown = tuple[tuple[str, ...], ...]
"""a matrix as it is displayed: a row for each token"""
Matrix = Sequence[Sequence[float]]
Step = Callable[[PipelineState], object]


@dataclass(frozen=True)
class WorkedExample:
    """What goes into a step, and what comes out of it: rightly, and with a mistake."""

    sizes: str
    """of the example, such as "2 tokens, d_k = 4" """
    given: str
    """what goes in, by name; what comes out is named by `result`"""
    result: str
    before: Shown
    right: Shown
    wrong: Shown


@dataclass(frozen=True)
class _Asked:
    """What a contract asks for, as far as an example depends on it."""

    projected: bool
    heads: bool
    causal: bool
    masked: bool
    finished: bool
    """by an output layer"""
    dropout: bool
    crossed: bool
    scale: float


def _read_contract(contract: Contract) -> _Asked:
    return _Asked(
        projected=contract.has(Capability.PROJECTED),
        heads=contract.has(Capability.HEADS),
        causal=contract.has(Capability.CAUSAL),
        masked=contract.has(Capability.CAUSAL) or contract.has(Capability.MASK),
        finished=contract.has(Capability.OUTPUT_PROJECTION),
        dropout=contract.has(Capability.DROPOUT),
        crossed=contract.has(Capability.CROSS),
        scale=get_scale(contract, Case(head_dim=HEAD_DIM)),
    )


@dataclass(frozen=True)
class _Stage:
    """Results of a pipeline that are shown: what they are called, and how to take them."""

    result: str
    take: Callable[[PipelineState], Tensor]
    """heads, tokens, columns"""
    given: str
    take_given: Callable[[PipelineState], Tensor]


# ------------------------------------------------------------------------------------- stages


def _split_flat(part: int) -> Callable[[PipelineState], Tensor]:
    return lambda s: s.projected[part]


def _split_part(part: int) -> Callable[[PipelineState], Tensor]:
    return lambda s: s.split[part][0]


def _list_stages() -> Iterator[_Stage]:
    """Yield what can be shown, in the order in which it is computed."""
    parts = tuple(enumerate(("queries", "keys", "values")))
    yield _Stage("tokens", lambda s: s.x, "tokens", lambda s: s.inputs.x)
    yield _Stage("tokens of the keys", lambda s: s.seen[1], "tokens", lambda s: s.inputs.x)
    yield _Stage("tokens of the values", lambda s: s.seen[2], "tokens", lambda s: s.inputs.x)
    for part, name in parts:
        yield _Stage(name, _split_flat(part), "tokens", lambda s: s.x)
    for part, name in reversed(parts):
        yield _Stage(f"{name}, by head", _split_part(part), name, _split_flat(part))
    yield _Stage("q·k", lambda s: s.raw_scores[0], "queries", lambda s: s.split[0][0])
    yield _Stage("what is averaged", lambda s: s.value[0], "values", lambda s: s.split[2][0])
    yield _Stage("scores", lambda s: s.scores[0], "q·k", lambda s: s.raw_scores[0])
    yield _Stage("weights", lambda s: s.applied_weights[0], "scores", lambda s: s.scores[0])
    yield _Stage(
        "outputs of the heads", lambda s: s.head_contexts[0], "values", lambda s: s.value[0]
    )
    yield _Stage(
        "merged", lambda s: s.context, "outputs of the heads", lambda s: s.head_contexts[0]
    )
    yield _Stage("output", lambda s: s.output, "merged", lambda s: s.context)


STAGES = tuple(_list_stages())
LATE_STAGES = tuple(dropwhile(lambda stage: stage.result != "weights", STAGES))
"""for a mistake in the weights that are used, which may make up for an earlier one"""
DROPPED_STAGES = tuple(
    _Stage("weights", stage.take, "before dropout", lambda s: s.weights[0])
    if stage.result == "weights"
    else stage
    for stage in STAGES
)


# ------------------------------------------------------------------------------------- inputs


def _tensor(rows: Matrix) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


@dataclass(frozen=True)
class _Numbers:
    """Queries, keys and values of a few tokens, a row for each; None: the tokens themselves."""

    x: Matrix
    q: Matrix | None = None
    k: Matrix | None = None
    v: Matrix | None = None
    heads: int = 1
    bias: tuple[float, ...] | None = None
    y: Matrix | None = None
    """the tokens that are attended to, if they are others"""


TWO, THREE = ((1, 0), (0, 1)), ((1, 0, 0), (0, 1, 0), (0, 0, 1))
"""tokens that choose a column of each weight matrix, so that projections can be any numbers"""
VALUES = ((1, 0, 2, 0), (0, 3, 0, 1), (4, 0, 0, 2))
QUERIES = ((1, 1, 1, 1), (2, 0, 0, 2), (0, 2, 0, 2))
KEYS = ((2, 0, 2, 0), (0, 2, 0, 0), (2, 2, 2, 2))
LOW_QUERIES, LOW_KEYS = ((2, 2, 2, 2), (2, 2, 2, 2)), ((-3, -3, -3, -3), (-2, -2, -2, -2))
"""whose scores are far below zero, where a fill that is not small enough shows"""
OWN = ((20, 0, 0, 0), (0, 20, 0, 0))
"""queries and keys by which every token attends to itself alone"""
NUMBERED = ((1, 2, 3, 4), (5, 6, 7, 8))


def _list_numbers(asked: _Asked) -> Iterator[_Numbers]:
    """Yield the numbers on which a mistake is tried, the simplest first."""
    if not asked.projected:
        yield _Numbers(QUERIES[:2])
        yield _Numbers(QUERIES)
        return
    yield _Numbers(TWO, QUERIES[:2], KEYS[:2], VALUES[:2])
    yield _Numbers(THREE, QUERIES, KEYS, VALUES)
    for times in (1, 10, 100, 1000):
        low = tuple(tuple(times * number for number in row) for row in LOW_KEYS)
        yield _Numbers(TWO, LOW_QUERIES, low, VALUES[:2])
    yield _Numbers(TWO, QUERIES[:2], KEYS[:2], VALUES[:2], bias=(1, 0, 2, 0))
    square = ((0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 2), (0, 0, 1, 0))
    yield _Numbers(QUERIES[:2], square, square[::-1], square)
    yield _Numbers(TWO, OWN, OWN, NUMBERED)
    if asked.crossed:
        yield _Numbers(TWO, QUERIES[:2], KEYS[:2], VALUES[:2], y=((3, 1), (1, 2)))
    if asked.heads:
        two_heads = tuple((*a, *b) for a, b in zip(QUERIES[:2], KEYS[:2], strict=True))
        other = tuple((*a, *b) for a, b in zip(KEYS[:2], VALUES[:2], strict=True))
        numbered = (tuple(range(1, 9)), tuple(range(9, 17)))
        yield _Numbers(TWO, two_heads, other, numbered, heads=2)
        own = tuple(row * 2 for row in OWN)
        yield _Numbers(TWO, own, own, numbered, heads=2)


DROPPED_NUMBERS = (
    _Numbers(TWO, ((0, 0, 0, 0),) * 2, KEYS[:2], NUMBERED),
    _Numbers(TWO, QUERIES[:2], ((2, 0, 2, 0), (1, 1, 0, 4)), NUMBERED),
)
"""on which dropout is tried: of equal weights, then of scores none of which is zero"""


def _make_inputs(asked: _Asked, numbers: _Numbers, *, finishes: bool) -> AttentionInputs:
    """Return the inputs of a pipeline, with an output layer if its last step is of interest."""
    tokens = len(numbers.x)
    return AttentionInputs(
        x=_tensor(numbers.x)[None],
        parameters=_make_parameters(numbers, finishes=finishes),
        heads=numbers.heads,
        may_attend=causal_mask(tokens) if asked.masked else None,
        scale=asked.scale,
        context_length=tokens,
        causal=asked.causal,
        others=() if numbers.y is None else (_tensor(numbers.y)[None],),
    )


def _make_parameters(numbers: _Numbers, *, finishes: bool) -> Parameters:
    eye = torch.eye(len(numbers.x[0]), dtype=torch.float64)
    w_q, w_k, w_v = (eye if t is None else _tensor(t).mT for t in (numbers.q, numbers.k, numbers.v))
    bias = None if numbers.bias is None else _tensor([numbers.bias])[0]
    made = Parameters(W_q=w_q, W_k=w_k, W_v=w_v, b_q=bias, b_k=bias, b_v=bias)
    width = w_v.shape[0]
    shift = 2 * torch.eye(width, dtype=torch.float64).roll(1, 0)
    ones = torch.ones(width, dtype=torch.float64)
    return replace(made, W_o=shift, b_o=ones) if finishes else made


# ----------------------------------------------------------------------------------- examples


def work_example(
    contract: Contract, mistake: Mistake, ways: Sequence[Sequence[Pipeline]] = ()
) -> WorkedExample | None:
    """Return a small example of a mistake; None if it shows on none of a few small inputs.

    Of a mistake that can be made in several ways, it is the one that is in `ways`.
    """
    if not contract.has(Capability.ATTENTION):
        return None
    pipelines = [pipeline for way in ways for pipeline in way]
    made = (v for v in mistake.variants if any(_is_in(v, each) for each in pipelines))
    variant = next(made, next(iter(mistake.variants), {}))
    return _work_example(_read_contract(contract), mistake, tuple(variant.items()))


def _is_in(overrides: StepOverrides, pipeline: Pipeline) -> bool:
    return all(getattr(pipeline, step) is function for step, function in overrides.items())


@cache
def _work_example(
    asked: _Asked, mistake: Mistake, overrides: tuple[tuple[str, Step], ...]
) -> WorkedExample | None:
    with torch.no_grad(), torch.random.fork_rng(devices=()):
        return _choose_roundest(_iter_examples(asked, mistake, dict(overrides)))


def _choose_roundest(examples: Iterator[WorkedExample]) -> WorkedExample | None:
    """Return the first example that begins with whole numbers, or else the first one."""
    first = None
    for example in examples:
        first = first or example
        if not any("." in number for row in example.before for number in row):
            return example
    return first


def _iter_examples(
    asked: _Asked, mistake: Mistake, overrides: StepOverrides
) -> Iterator[WorkedExample]:
    finishes = "finish" in overrides and asked.finished
    faulty = CORRECT.override(overrides)
    for numbers in _list_numbers(asked) if overrides else ():
        if numbers.heads > 1 or not mistake.needs_several_heads:
            inputs = _make_inputs(asked, numbers, finishes=finishes)
            yield from _compare(inputs, faulty, STAGES if "use" not in overrides else LATE_STAGES)
    for dropping, numbers in product(mistake.droppings, DROPPED_NUMBERS):
        inputs = replace(_make_inputs(asked, numbers, finishes=False), may_attend=None)
        right = on_weights if asked.dropout else never
        yield from _compare_dropping(inputs, right, dropping)


def _compare(
    inputs: AttentionInputs, faulty: Pipeline, stages: Sequence[_Stage]
) -> Iterator[WorkedExample]:
    """Yield the first stage at which a pipeline visibly parts from the correct one, if any."""
    try:
        right, wrong = run_pipeline(CORRECT, inputs), run_pipeline(faulty, inputs)
    except SHAPE_ERRORS:
        return
    for stage in stages:
        one, other = stage.take(right), stage.take(wrong)
        if _differ(one, other):
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
    """Yield the draw that shows a mistake best: one in which both drop the same, if there is."""
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
            partly = _is_partly_dropped(one) or _is_partly_dropped(other)
            shown = partly and bool(one.any()) and bool(other.any())
            return _show(inputs, stage, right, one, other) if shown else None
    return None


def _is_partly_dropped(t: Tensor) -> bool:
    return 0 < int((t == 0).sum()) < t.numel()


def _run_seeded(pipeline: Pipeline, inputs: AttentionInputs, seed: int) -> PipelineState:
    torch.manual_seed(seed)
    return run_pipeline(pipeline, inputs)


def _count_other_zeros(example: WorkedExample) -> int:
    """Count where only one of the two is zero."""
    pairs = zip(example.right, example.wrong, strict=True)
    return sum((a == "0") != (b == "0") for r, w in pairs for a, b in zip(r, w, strict=True))


# ------------------------------------------------------------------------------------ display


def _show(
    inputs: AttentionInputs, stage: _Stage, right: PipelineState, one: Tensor, other: Tensor
) -> WorkedExample:
    heads = f"{inputs.heads} heads, " if inputs.heads > 1 else ""
    return WorkedExample(
        sizes=f"{inputs.tokens} tokens, {heads}d_k = {inputs.head_dim}",
        given=stage.given,
        result=stage.result,
        before=_format_matrix(stage.take_given(right)),
        right=_format_matrix(one),
        wrong=_format_matrix(other),
    )


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
