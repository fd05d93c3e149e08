"""Cache the answers of all mistakes, and of pairs of them, on one input.

Theory of operation
    A submission is compared with thousands of pipelines on the first case that it gets wrong. The
    answers of pipelines do not depend on the submission, and the cases are always the same. So
    these answers are cached as rows of numbers, and a submission's answer is compared with all
    rows in one operation. The table only excludes pipelines that cannot explain an answer:
    candidates with similar answers are then evaluated one by one
    (`properties.mistakes.recognisers.answers`).
"""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headcheck.properties.bounds.oracle import hash_tensors
from headcheck.properties.mistakes.catalogue import Mistake
from headcheck.properties.mistakes.evaluation import MemoisedEvaluator
from headcheck.properties.mistakes.pipeline import AttentionInputs, Pipeline, StepOverrides
from headcheck.properties.mistakes.steps.scores import (
    filled_with_minus_1e9,
    nan_replaced,
    raised_by,
)

MAX_VARIANTS_PER_MISTAKE = 4
"""how many variants of a mistake are combined with other mistakes"""

NAN_WORKAROUNDS: tuple[StepOverrides, ...] = (
    {"hide": filled_with_minus_1e9},
    {"hide": raised_by(-1e9)},
    {"use": nan_replaced},
)
"""Overrides of steps that people add because the softmax of a row of only −∞ is NaN."""

MAX_TABLES = 16
"""how many recently used tables are cached: a few megabytes each, 25 for a layer of GPT-2"""

Mistakes = tuple[Mistake, ...]
Candidate = tuple[Mistakes, StepOverrides]
Outputs = tuple[Tensor, ...]
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class MistakeKey:
    """An input, the correct pipeline on it, and the mistakes to try: one at a time or in pairs."""

    inputs: AttentionInputs = field(compare=False)
    base: Pipeline
    mistakes: Mistakes
    pairs: bool
    content: bytes
    """a hash of `inputs`, since the inputs themselves are not compared"""


def make_key(
    inputs: AttentionInputs, base: Pipeline, mistakes: Sequence[Mistake], *, pairs: bool
) -> MistakeKey:
    """Return the key of the table for these inputs and mistakes."""
    parameters = dict(inputs.parameters.items())
    rest = (
        inputs.heads,
        inputs.scale,
        inputs.context_length,
        inputs.causal,
        inputs.wanted,
        inputs.variant,
        inputs.window,
        inputs.block,
    )
    content = hash_tensors(*inputs.sources, inputs.may_attend, *parameters.values())
    content += repr((rest, list(parameters))).encode()
    return MistakeKey(inputs, base, tuple(mistakes), pairs, content)


@dataclass(frozen=True, eq=False)
class MistakeTable:
    """Candidates, and their answers as rows of numbers, by the shapes of the answer."""

    candidates: tuple[Candidate, ...]
    rows: Mapping[Shapes, tuple[Tensor, Tensor]]
    """for each shape, the index of each row's candidate, and the rows: the numbers of all tensors
    of an answer, concatenated"""

    def find_candidates(self, answer: Outputs, tolerances: Sequence[float]) -> Iterator[Candidate]:
        """Yield the candidates that give this answer within the tolerances.

        NaN and infinity must be in the same places in both answers.
        """
        shapes = tuple(tuple(t.shape) for t in answer)
        owners, rows = self.rows.get(shapes, (torch.empty(0), torch.empty(0, 0)))
        if not len(owners):
            return
        numbers = torch.cat([t.detach().flatten().to(torch.float64) for t in answer])
        sizes = torch.tensor([t.numel() for t in answer])
        tolerance = torch.tensor(tolerances, dtype=torch.float64).repeat_interleave(sizes)
        finite = numbers.isfinite()
        close = ((rows - numbers).abs() <= tolerance) | ~finite
        matches = (rows.isfinite() == finite).all(1) & close.all(1)
        for index in owners[matches].unique().tolist():
            yield self.candidates[index]


@functools.lru_cache(maxsize=MAX_TABLES)
def build_table(key: MistakeKey) -> MistakeTable:
    """Evaluate every candidate on the input of the key."""
    evaluator = MemoisedEvaluator(key.inputs, key.base)
    singles = (((each,), overrides) for each in key.mistakes for overrides in each.variants)
    candidates = tuple(_iter_pairs(evaluator, key) if key.pairs else singles)
    found: dict[Shapes, tuple[list[Tensor], list[Tensor]]] = {}
    every = [(index, overrides) for index, (_, overrides) in enumerate(candidates)]
    undefined = set(_collect_rows(evaluator, every, found))
    # Where an answer has NaN, the candidate's answers with NaN workarounds are rows, too.
    with_nan = (each for each in every if each[0] in undefined)
    _collect_rows(
        evaluator, [(i, way) for i, each in with_nan for way in iter_nan_workarounds(each)], found
    )
    stacked = {
        shapes: (torch.cat(owners), torch.cat(rows)) for shapes, (owners, rows) in found.items()
    }
    return MistakeTable(candidates, stacked)


def _collect_rows(
    evaluator: MemoisedEvaluator,
    every: Sequence[tuple[int, StepOverrides]],
    found: dict[Shapes, tuple[list[Tensor], list[Tensor]]],
) -> list[int]:
    """Add the answers with these overrides, and their owners; return who has NaN or infinity."""
    owner_of = torch.tensor([owner for owner, _ in every])
    undefined: list[int] = []
    for indices, answer in evaluator.evaluate_all([overrides for _, overrides in every]):
        owners = owner_of[indices]
        rows = torch.cat([t.detach().flatten(1).to(torch.float64) for t in answer], dim=1)
        shapes = tuple(tuple(t.shape[1:]) for t in answer)
        of_shape = found.setdefault(shapes, ([], []))
        of_shape[0].append(owners)
        of_shape[1].append(rows)
        undefined += owners[~rows.isfinite().all(1)].tolist()
    return undefined


def _iter_pairs(evaluator: MemoisedEvaluator, key: MistakeKey) -> Iterator[Candidate]:
    """Yield pairs of mistakes that change different steps."""
    correct = evaluator.evaluate(key.base)
    assert correct is not None, "the correct pipeline can be evaluated on every case"
    common = [
        (each, overrides)
        for each in key.mistakes
        for overrides in each.variants[:MAX_VARIANTS_PER_MISTAKE]
        if not each.rare and _has_effect(evaluator, overrides, correct.answer)
    ]
    for (one, overrides), (other, another) in itertools.combinations(common, 2):
        if one is not other and not overrides.keys() & another.keys():
            yield (one, other), {**overrides, **another}


def _has_effect(evaluator: MemoisedEvaluator, overrides: StepOverrides, correct: Outputs) -> bool:
    """Whether the answer differs from the correct one with these overrides."""
    state = evaluator.evaluate_with(overrides)
    return state is None or not all(map(torch.equal, state.answer, correct))


def iter_nan_workarounds(overrides: StepOverrides) -> Iterator[StepOverrides]:
    """Yield these overrides with a NaN workaround in another step."""
    for workaround in NAN_WORKAROUNDS:
        if not workaround.keys() & overrides.keys():
            yield {**overrides, **workaround}


def is_finite(answer: Iterable[Tensor]) -> bool:
    """Whether an answer has no NaN and no infinity."""
    return all(math.isfinite(t.sum()) for t in answer)
