"""Find the known mistake that gives the same answers as the submission.

The submission answers a few cases on which mistakes differ: all sizes differ from each other, so
that no divisor can be mistaken for another; scores are large enough to reveal a wrong scale; one
case shows the attention weights themselves (`properties.harness.tomography`). Every mistake of
`properties.mistakes.catalogue` is evaluated on the same inputs. A mistake is named only if it
explains every answer up to rounding. Most are refuted by the first case.

A mistake explains an answer if no element differs by more than 2⁸ u (1 + max |q kᵀ|) times the
largest element, with u the unit roundoff of float64: the bound of `properties.bounds.attention` for
the scores that a wrong scale may give, as one number. No two mistakes of the catalogue have answers
that are so close.
"""

import itertools
import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes import dropout_diagnosis, gradient_diagnosis
from headcheck.properties.mistakes.catalogue import EQUATION, NUMBERS, Mistake
from headcheck.properties.mistakes.mistake_table import Mistakes, apply_nan_workarounds, is_finite
from headcheck.properties.mistakes.pipeline import Pipeline, StepOverrides
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
from headcheck.properties.violations.violation import SubmissionFailed, Violation

MIN_ANSWERS = 3
"""the fewest answers that a diagnosis must explain"""


Pipelines = tuple[Pipeline, ...]
"""one pipeline for all outputs, or one for each output if outputs are computed separately"""


@dataclass(frozen=True)
class DiagnosedMistake:
    """A mistake that explains the answers of a submission."""

    mistake: Mistake
    cases_matched: int
    """the number of answers that the mistake explains, including crashes"""
    cases_tried: int
    indistinguishable: tuple[Mistake, ...] = ()
    """other mistakes that give the same answers"""
    ways: tuple[Pipelines, ...] = ()
    """the pipelines that compute the answers, with this mistake and the other mistakes of the
    submission. There are several if they are indistinguishable, and none if no pipeline is known"""
    output: int | None = None
    """the only output with the mistake, if outputs are computed separately; else None"""


def diagnose(harness: Harness, device: str = "cpu") -> tuple[DiagnosedMistake, ...]:
    """Return the mistakes that explain a submission; none if it is correct or unexplained.

    A case on which the submission raises must be explained, too: either the mistake also raises
    there, or the property about a peculiarity of the case failed.
    """
    try:
        # Modules of the size of a real model take a second to construct.
        few = harness.contract.sizes is not None
        cases, extreme = (CASES[:MIN_ANSWERS], EXTREME_CASES[:1]) if few else (CASES, EXTREME_CASES)
        samples = [
            *collect_samples(harness, cases, device),
            *collect_weight_samples(harness, device),
            *collect_cross_samples(harness, device),
            *collect_padding_samples(harness, device),
        ]
        if not any(sample.is_wrong for sample in samples):
            samples += collect_extreme_samples(harness, extreme, device)
    except SubmissionFailed:
        return ()  # out of time or memory: there are no answers to compare
    mistakes, numbers = (
        [each for each in known if each.applies_to(harness.contract)]
        for known in (EQUATION, NUMBERS)
    )
    if harness.contract.returns is Returns.WEIGHTS_TWICE:
        return _explain_apart(samples, mistakes)
    for dtype in _list_precisions(harness.contract):
        taken = [sample.be_exact_as(dtype) for sample in samples]
        if not any(sample.is_wrong for sample in taken):
            named = _diagnose_gradients(harness, device)
            return named or _diagnose_dropout(harness, device)
        named = _explain(taken, mistakes, pairs=not few)
        if named := named or _explain(taken, numbers, pairs=False):
            return named
    return _diagnose_dropout(harness, device)


def _list_precisions(contract: Contract) -> tuple[str, ...]:
    """Return the possible precisions of an answer: often angles or slopes are in float32."""
    return ("float64", "float32") if contract.has(Capability.POSITIONS) else ("float64",)


def _diagnose_gradients(harness: Harness, device: str) -> tuple[DiagnosedMistake, ...]:
    try:
        found = gradient_diagnosis.diagnose_gradients(harness, device)
    except (SubmissionFailed, Violation):
        return ()
    if found is None:
        return ()
    ways = ((found.pipeline,),)
    return (DiagnosedMistake(found.mistake, found.explained, found.explained, (), ways),)


def _diagnose_dropout(harness: Harness, device: str) -> tuple[DiagnosedMistake, ...]:
    try:
        mistake = dropout_diagnosis.diagnose_dropout(harness, device)
    except (SubmissionFailed, Violation):
        return ()
    return (DiagnosedMistake(mistake, 2, 2),) if mistake else ()


# --------------------------------------------------------------------------- explanations


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


def _explain_apart(
    samples: Sequence[Sample], mistakes: Sequence[Mistake]
) -> tuple[DiagnosedMistake, ...]:
    """Explain two outputs that are computed separately, each by its own mistakes."""
    # Each part is a single result, so mistakes about which results are returned cannot occur.
    mistakes = [m for m in mistakes if not any("give" in overrides for overrides in m.variants)]
    parts = [[sample.select_output(i) for sample in samples] for i in (0, 1)]
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
        yield from filter(sample.is_explained_by, apply_nan_workarounds(sample.base, overrides))
