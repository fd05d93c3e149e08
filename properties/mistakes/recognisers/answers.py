"""Recognise mistakes in the steps of attention by the answers that they give.

The submission answers a few cases on which mistakes differ (`properties.mistakes.samples`): all
sizes differ from each other, so that no divisor can be mistaken for another; scores are large
enough to reveal a wrong scale; one case shows the attention weights themselves
(`properties.harness.tomography`). Every mistake of a catalogue is evaluated on the same inputs. A
mistake is named only if it explains every answer up to rounding. Most are refuted by the first
case. A case on which the submission raises must be explained, too: either the mistake also raises
there, or the property about a peculiarity of the case failed.

A mistake explains an answer if no element differs by more than 2⁸ u (1 + max |q kᵀ|) times the
largest element, with u the unit roundoff of float64: the bound of `properties.bounds.attention` for
the scores that a wrong scale may give, as one number. No two mistakes of the catalogue have answers
that are so close.
"""

import itertools
import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch

from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue import EQUATION, Mistake
from headcheck.properties.mistakes.mistake_table import Mistakes, is_finite, iter_nan_workarounds
from headcheck.properties.mistakes.pipeline import Pipeline, StepOverrides
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake, Pipelines
from headcheck.properties.mistakes.samples import (
    CASES,
    EXTREME_CASES,
    Sample,
    collect_cross_samples,
    collect_extreme_samples,
    collect_padding_samples,
    collect_samples,
    collect_weight_samples,
)

MIN_ANSWERS = 3
"""the fewest answers that a diagnosis must explain"""


@dataclass(frozen=True, eq=False)
class Answers:
    """A submission's answers to cases, and the harness that can ask for more."""

    harness: Harness
    device: str = "cpu"
    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    """the answers by dtype, each compared as if it were exact in this dtype"""

    @property
    def contract(self) -> Contract:
        return self.harness.contract

    @cached_property
    def are_right(self) -> bool:
        """Whether all finite answers are right in some dtype."""
        return any(not any(each.is_wrong for each in s) for s in self.samples.values())


def collect_answers(harness: Harness, device: str) -> Answers:
    """Ask the submission for its answers. Raises SubmissionFailed if it has no time or memory."""
    few = has_few_answers(harness.contract)
    cases, extreme = (CASES[:MIN_ANSWERS], EXTREME_CASES[:1]) if few else (CASES, EXTREME_CASES)
    samples = [
        *collect_samples(harness, cases, device),
        *collect_weight_samples(harness, device),
        *collect_cross_samples(harness, device),
        *collect_padding_samples(harness, device),
    ]
    if not any(sample.is_wrong for sample in samples):
        samples += collect_extreme_samples(harness, extreme, device)
    by_dtype = {"float64": samples}
    if harness.contract.has(Capability.POSITIONS):  # often angles or slopes are in float32
        by_dtype["float32"] = [sample.be_exact_as("float32") for sample in samples]
    return Answers(harness, device, by_dtype)


def has_few_answers(contract: Contract) -> bool:
    """Whether modules have the size of a real model, and take a second to construct."""
    return contract.sizes is not None


@dataclass(frozen=True)
class StepRecogniser:
    """Names the mistakes of a catalogue, one or a pair of them, that give all answers."""

    mistakes: Sequence[Mistake]
    dtype: str = "float64"
    """the dtype in which the answers are exact"""
    pairs: bool = False

    def __call__(self, answers: Answers) -> tuple[DiagnosedMistake, ...]:
        if answers.contract.returns is Returns.WEIGHTS_TWICE:
            return ()
        possible = [each for each in self.mistakes if each.applies_to(answers.contract)]
        pairs = self.pairs and not has_few_answers(answers.contract)
        return _explain(answers.samples.get(self.dtype, ()), possible, pairs)


def recognise_apart(answers: Answers) -> tuple[DiagnosedMistake, ...]:
    """Explain two outputs that are computed separately, each by its own mistakes."""
    if answers.contract.returns is not Returns.WEIGHTS_TWICE:
        return ()
    # Each part is a single result, so mistakes about which results are returned cannot occur.
    mistakes = [
        each
        for each in EQUATION
        if each.applies_to(answers.contract) and not any("give" in way for way in each.variants)
    ]
    parts = [[each.select_output(i) for each in answers.samples["float64"]] for i in (0, 1)]
    found = [_explain(part, mistakes, pairs=False) for part in parts]
    one, other = map(_list_ways, parts, found)
    ways = tuple(itertools.starmap(operator.add, itertools.product(one, other)))
    having = Counter(each.mistake for explained in found for each in explained)
    named = {
        d.mistake: replace(d, ways=ways, output=output if having[d.mistake] == 1 else None)
        for output, explained in enumerate(found)
        for d in explained
    }
    return tuple(named.values())


def _list_ways(
    samples: Sequence[Sample], explained: Sequence[DiagnosedMistake]
) -> tuple[Pipelines, ...]:
    """Return the pipelines of explained outputs, the correct one for right outputs, or none."""
    if explained:
        return explained[0].ways
    return () if any(sample.is_wrong for sample in samples) else ((samples[0].base,),)


def _explain(
    samples: Sequence[Sample], mistakes: Sequence[Mistake], pairs: bool
) -> tuple[DiagnosedMistake, ...]:
    first = next((sample for sample in samples if sample.is_wrong), None)
    if first is None or sum(sample.has_finite_answer for sample in samples) < MIN_ANSWERS:
        return ()
    others = [sample for sample in samples if sample is not first]
    with torch.no_grad():
        for together in (False, True) if pairs else (False,):
            explanations = [
                (candidate, pipeline)
                for candidate, overrides in first.find_candidates(mistakes, pairs=together)
                for pipeline in _iter_explaining_pipelines(first, overrides)
                if all(sample.is_explained_by(pipeline) for sample in others)
            ]
            if explanations:
                return _make_diagnosed_mistakes(explanations, samples)
    return ()


def _make_diagnosed_mistakes(
    explanations: Sequence[tuple[Mistakes, Pipeline]], samples: Sequence[Sample]
) -> tuple[DiagnosedMistake, ...]:
    best, _ = explanations[0]
    single = [mistakes[0] for mistakes, _ in explanations if len(mistakes) == 1]
    others = tuple(dict.fromkeys(m for m in single if m not in best and not m.rare))
    matched = sum(sample.answer is not None or not sample.crash_is_known for sample in samples)
    ways = tuple((pipeline,) for mistakes, pipeline in explanations if mistakes == best)
    return tuple(DiagnosedMistake(m, matched, len(samples), others, ways) for m in best)


def _iter_explaining_pipelines(sample: Sample, overrides: StepOverrides) -> Iterator[Pipeline]:
    """Yield pipelines that explain a sample, with these overrides and perhaps a NaN workaround."""
    pipeline = sample.base.override(overrides)
    state = sample.evaluator.evaluate(pipeline)
    if state is None:
        return
    explains = sample.matches_answer(state.answer)
    if explains:
        yield pipeline
    # Even if there is no NaN here, there may be some on other samples.
    if explains or not is_finite(state.answer):
        ways = map(sample.base.override, iter_nan_workarounds(overrides))
        yield from filter(sample.is_explained_by, ways)
