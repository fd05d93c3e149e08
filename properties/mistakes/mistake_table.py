"""What every mistake, and every pair of them, gives on one input: worked out once for everybody.

Theory ------ A submission is compared with thousands of recipes on the first case that it got
wrong. What these give there does not depend on the submission, and the cases are always the same.
So it is kept, as rows of numbers, and an answer is compared with all rows at once. What comes near
is then looked at as if it had been followed alone (`properties.mistakes.diagnosis`): a menu only
spares what cannot explain it.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from properties.mistakes.catalogue import Mistake
from properties.mistakes.pipeline import AttentionInputs, MemoisedEvaluator, Pipeline, StepOverrides
from properties.mistakes.steps.scores import filled_with_minus_1e9, nan_replaced, raised_by
from properties.oracle import hash_tensors

MAX_VARIANTS_PER_MISTAKE = 4
"""how many ways to make a mistake are tried beside another one"""

NAN_WORKAROUNDS: tuple[StepOverrides, ...] = (
    {"hide": filled_with_minus_1e9},
    {"hide": raised_by(-1e9)},
    {"use": nan_replaced},
)
"""What else people do where a row with nothing but −∞ gives NaN."""

MAX_TABLES = 16
"""so many menus, the ones used last: a few megabytes each, 25 for a layer of GPT-2"""

Mistakes = tuple[Mistake, ...]
Candidate = tuple[Mistakes, StepOverrides]
Outputs = tuple[Tensor, ...]
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class MistakeKey:
    """Which input, what is right there, and which mistakes are known; one at a time or in pairs."""

    inputs: AttentionInputs = field(compare=False)
    base: Pipeline
    mistakes: Mistakes
    pairs: bool
    content: bytes
    """of what is given"""


def make_key(
    inputs: AttentionInputs, base: Pipeline, mistakes: Sequence[Mistake], *, pairs: bool
) -> MistakeKey:
    """What a menu is asked for."""
    tensors = [inputs.x, inputs.may_attend, *(t for _, t in inputs.parameters.items())]
    rest = inputs.heads, inputs.scale, inputs.context_length, inputs.causal, inputs.wanted
    names = [name for name, _ in inputs.parameters.items()]
    return MistakeKey(
        inputs, base, tuple(mistakes), pairs, hash_tensors(*tensors) + repr((rest, names)).encode()
    )


@dataclass(frozen=True, eq=False)
class MistakeTable:
    """Candidates, and by the shapes of an answer the rows of those that give such a one."""

    candidates: tuple[Candidate, ...]
    rows: Mapping[Shapes, tuple[Tensor, Tensor]]
    """by number, whose a row is; and the numbers of all tensors, end to end"""

    def find_candidates(self, answer: Outputs, tolerances: Sequence[float]) -> Iterator[Candidate]:
        """Those that give an answer but for rounding; what is not finite, is it in both."""
        owners, rows = self.rows.get(_get_shapes(answer), (torch.empty(0), torch.empty(0, 0)))
        if not len(owners):
            return
        numbers = _flatten(answer)
        sizes = torch.tensor([t.numel() for t in answer])
        allowed = torch.tensor(tolerances, dtype=torch.float64).repeat_interleave(sizes)
        finite = numbers.isfinite()
        close = ((rows - numbers).abs() <= allowed) | ~finite
        alike = (rows.isfinite() == finite).all(1) & close.all(1)
        for number in owners[alike].unique().tolist():
            yield self.candidates[number]


@functools.lru_cache(maxsize=MAX_TABLES)
def build_table(key: MistakeKey) -> MistakeTable:
    """Follow every candidate on an input."""
    evaluator = MemoisedEvaluator(key.inputs, key.base)
    make = _iter_pairs if key.pairs else _iter_singles
    candidates = tuple(make(evaluator, key))
    found: dict[Shapes, tuple[list[int], list[Tensor]]] = {}
    for number, (_, overrides) in enumerate(candidates):
        for answer in _iter_outputs(evaluator, key.base, overrides):
            owners, rows = found.setdefault(_get_shapes(answer), ([], []))
            owners.append(number)
            rows.append(_flatten(answer))
    stacked = {
        form: (torch.tensor(owners), torch.stack(rows)) for form, (owners, rows) in found.items()
    }
    return MistakeTable(candidates, stacked)


def _iter_singles(evaluator: MemoisedEvaluator, key: MistakeKey) -> Iterator[Candidate]:
    for each in key.mistakes:
        for overrides in each.variants:
            yield (each,), overrides


def _iter_pairs(evaluator: MemoisedEvaluator, key: MistakeKey) -> Iterator[Candidate]:
    """Two mistakes in different steps."""
    right = evaluator.evaluate(key.base)
    assert right is not None, "the right recipe can be followed on every case"
    common = [
        (each, overrides)
        for each in key.mistakes
        for overrides in each.variants[:MAX_VARIANTS_PER_MISTAKE]
        if not each.rare and _has_effect(evaluator, key.base.override(overrides), right.answer)
    ]
    for (one, overrides), (other, another) in itertools.combinations(common, 2):
        if one is not other and not overrides.keys() & another.keys():
            yield (one, other), {**overrides, **another}


def _has_effect(evaluator: MemoisedEvaluator, pipeline: Pipeline, right: Outputs) -> bool:
    """Whether a recipe gives something else."""
    steps = evaluator.evaluate(pipeline)
    return steps is None or not all(map(torch.equal, steps.answer, right))


def _iter_outputs(
    evaluator: MemoisedEvaluator, base: Pipeline, overrides: StepOverrides
) -> Iterator[Outputs]:
    """What a recipe with a change gives; and with what people do about NaN, where there is some."""
    steps = evaluator.evaluate(base.override(overrides))
    if steps is None:
        return
    yield steps.answer
    if not is_finite(steps.answer):
        for pipeline in apply_nan_workarounds(base, overrides):
            after = evaluator.evaluate(pipeline)
            if after is not None:
                yield after.answer


def apply_nan_workarounds(base: Pipeline, overrides: StepOverrides) -> Iterator[Pipeline]:
    """A recipe with a change, and with what people do about NaN in a step that it leaves alone."""
    for habit in NAN_WORKAROUNDS:
        if not habit.keys() & overrides.keys():
            yield base.override({**overrides, **habit})


def is_finite(answer: Iterable[Tensor]) -> bool:
    """Whether there is no NaN and no infinity."""
    return all(math.isfinite(t.sum()) for t in answer)


def _get_shapes(answer: Outputs) -> Shapes:
    return tuple(tuple(t.shape) for t in answer)


def _flatten(answer: Outputs) -> Tensor:
    return torch.cat([t.detach().flatten().to(torch.float64) for t in answer])
