"""Name the mistake: find the known mistake that computes what a submission computes.

The submission answers a few cases on which mistakes differ: all sizes differ from each other, so
that no divisor can be confused with another; scores are sharp enough to reveal a wrong scale; one
case shows the attention weights themselves (`properties.harness.tomography`). Every mistake of
`properties.mistakes.catalogue` is evaluated on the same inputs. A mistake is named only if it
explains every answer up to rounding. Most are refuted by the first case.

A mistake explains an answer if no element differs by more than 2⁸ u (1 + max |q kᵀ|) times the
largest element, with u the unit roundoff of float64: the bound of `properties.tolerance` for the
scores that a wrong scale may give, as one number. No two mistakes of the catalogue come that near
to each other.
"""

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from properties.case import Case, InputContent, MaskForm
from properties.contract import Capability, Returns
from properties.harness import tomography
from properties.harness.harness import Harness, LiveContext
from properties.harness.module_adapter import ModuleAdapter
from properties.mistakes import dropout_diagnosis, gradient_diagnosis
from properties.mistakes.catalogue import DETERMINISTIC, NUMBERS, Mistake
from properties.mistakes.mistake_table import (
    Candidate,
    Mistakes,
    apply_nan_workarounds,
    build_table,
    is_finite,
    make_key,
)
from properties.mistakes.pipeline import (
    AttentionInputs,
    MemoisedEvaluator,
    Pipeline,
    PipelineState,
    StepOverrides,
)
from properties.mistakes.pipeline_inputs import get_correct_pipeline, make_attention_inputs
from properties.subject import CallOptions
from properties.tolerance import PRECISIONS
from properties.violation import Status, SubmissionFailed, Violation
from reference import Parameters

CASES = (
    Case(
        batch=2,
        tokens=5,
        context_length=6,
        d_in=7,
        heads=3,
        head_dim=4,
        bias=True,
        sharpness=2,
        mask_form=MaskForm.BATCH_HEAD_QUERY_KEY,
        seed=2001,
    ),
    Case(
        batch=3,
        tokens=4,
        context_length=4,
        d_in=5,
        heads=2,
        head_dim=6,
        sharpness=2,
        mask_form=MaskForm.BATCH_ONE_ONE_KEY,
        seed=2002,
    ),
    Case(
        batch=2,
        tokens=7,
        context_length=11,
        d_in=8,
        heads=4,
        head_dim=2,
        bias=True,
        sharpness=2,
        mask_form=MaskForm.QUERY_KEY,
        seed=2003,
    ),
    Case(batch=1, tokens=9, context_length=9, d_in=4, head_dim=4, sharpness=2, seed=2004),
    Case(
        batch=2,
        tokens=6,
        context_length=6,
        d_in=6,
        heads=2,
        head_dim=3,
        content=InputContent.ZERO,
        seed=2005,
    ),
    Case(batch=2, tokens=3, context_length=3, d_in=3, head_dim=3, bias=True, seed=2012),
    Case(batch=2, tokens=5, context_length=7, d_in=5, head_dim=5, seed=2013),
    Case(batch=2, tokens=19, context_length=20, d_in=3, heads=2, head_dim=2, seed=2006),
)
"""Cases on which mistakes differ. Some mistakes only run where d_in = d_out."""

EXTREME_CASES = tuple(
    replace(CASES[2], batch=8, sharpness=sharpness, mask_form=form, seed=seed)
    for sharpness, form, seed in (
        (100, MaskForm.QUERY_KEY, 2007),
        (250, MaskForm.BATCH_ONE_QUERY_KEY, 2008),
        (1000, MaskForm.ONE_HEAD_QUERY_KEY, 2009),
        (100_000, MaskForm.BATCH_HEAD_QUERY_KEY, 2010),
    )
)
"""For answers that are correct on `CASES`: scores that outweigh a fill or overflow an exp."""

MIN_ANSWERS = 3
"""how many answers a diagnosis has to explain at least"""


Pipelines = tuple[Pipeline, ...]
"""one for all outputs, or one for each if they are computed apart"""


@dataclass(frozen=True)
class DiagnosedMistake:
    """A mistake that explains the answers of a submission."""

    mistake: Mistake
    cases_matched: int
    """number of answers that it explains"""
    cases_tried: int
    indistinguishable: tuple[Mistake, ...] = ()
    """other mistakes that give the same answers"""
    ways: tuple[Pipelines, ...] = ()
    """what computes the answers, with this mistake and those found with it: the ways to make them
    that nothing tells apart; none if that is not known"""


def diagnose(harness: Harness, device: str = "cpu") -> tuple[DiagnosedMistake, ...]:
    """Return the mistakes that explain a submission; none if it is correct or not understood.

    A case on which the submission raises is ignored.
    """
    try:
        # Modules of the size of a real model take a second to construct.
        few = harness.contract.sizes is not None
        cases, extreme = (CASES[:MIN_ANSWERS], EXTREME_CASES[:1]) if few else (CASES, EXTREME_CASES)
        samples = [
            *_collect_samples(harness, cases, device),
            *_collect_weight_samples(harness, device),
        ]
        if not any(sample.is_wrong for sample in samples):
            samples += _collect_samples(harness, extreme, device)
    except SubmissionFailed:
        return ()  # out of time or memory: there are no answers to compare
    mistakes = [
        m
        for m in DETERMINISTIC
        if not m.needs_several_heads or harness.contract.has(Capability.HEADS)
    ]
    if harness.contract.returns is Returns.WEIGHTS_TWICE:
        return _explain_apart(samples, mistakes)
    if any(sample.is_wrong for sample in samples):
        named = _explain(samples, mistakes, pairs=not few) or _explain(
            samples, NUMBERS, pairs=False
        )
    else:
        named = _diagnose_gradients(harness, device)
    return named or _diagnose_dropout(harness, device)


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


class Sample:
    """One case: its inputs, the submission's answer, and an evaluator of pipelines."""

    def __init__(
        self, inputs: AttentionInputs, answer: tuple[Tensor, ...] | None, base: Pipeline
    ) -> None:
        self.inputs = inputs
        self.answer = answer
        self.base = base
        self.evaluator = MemoisedEvaluator(inputs, base)

    @cached_property
    def correct_state(self) -> PipelineState:
        state = self.evaluator.evaluate(self.base)
        assert state is not None, "the correct pipeline can be evaluated on every case"
        return state

    @cached_property
    def is_wrong(self) -> bool:
        """Whether the submission answered with finite numbers, but not the correct ones."""
        return self.has_finite_answer and not self.matches_answer(self.correct_state.answer)

    @cached_property
    def has_finite_answer(self) -> bool:
        """Whether there is an answer with at least one finite number."""
        return self.answer is not None and any(bool(t.isfinite().any()) for t in self.answer)

    @cached_property
    def _finite(self) -> list[Tensor | None]:
        """For each tensor of the answer, a mask of its finite elements; None if all are finite."""
        masks = [t.isfinite() for t in self.answer or ()]
        return [None if bool(mask.all()) else mask for mask in masks]

    @cached_property
    def _tolerances(self) -> list[float]:
        largest = float(self.correct_state.raw_scores.abs().max())
        relative = 2**8 * PRECISIONS["float64"].u * (1 + largest)
        finite = [t[t.isfinite()].abs() for t in self.answer or ()]
        return [relative * float(t.max()) if t.numel() else 0.0 for t in finite]

    def matches_answer(self, other: tuple[Tensor, ...]) -> bool:
        """Whether `other` is the answer up to rounding, with the same elements finite."""
        answer = self.answer or ()
        return len(answer) == len(other) and all(
            a.shape == b.shape and _is_close(a, b, tolerance, finite)
            for a, b, tolerance, finite in zip(
                answer, other, self._tolerances, self._finite, strict=True
            )
        )

    def find_candidates(self, mistakes: Sequence[Mistake], *, pairs: bool) -> Iterator[Candidate]:
        """Find the mistakes, or pairs of them, that may explain this answer."""
        key = make_key(self.inputs, self.base, mistakes, pairs=pairs)
        return build_table(key).find_candidates(self.answer or (), self._tolerances)

    def is_explained_by(self, pipeline: Pipeline) -> bool:
        """Whether a pipeline gives this answer; any does if there is no finite answer."""
        if not self.has_finite_answer:
            return True
        state = self.evaluator.evaluate(pipeline)
        return state is not None and self.matches_answer(state.answer)

    def select_output(self, index: int) -> "Sample":
        """Return a sample of one of the two outputs, as if it were the only one."""
        answer = None if self.answer is None else self.answer[index : index + 1]
        return Sample(replace(self.inputs, wanted=("matrix",)), answer, self.base)


def _is_close(got: Tensor, other: Tensor, tolerance: float, finite: Tensor | None) -> bool:
    if finite is not None and not torch.equal(finite, other.isfinite()):
        return False
    close = (got - other).abs() <= tolerance
    return bool((close if finite is None else close[finite]).all())


# ------------------------------------------------------------------------------- samples


def _collect_samples(harness: Harness, cases: Iterable[Case], device: str) -> list[Sample]:
    fitted = dict.fromkeys(harness.contract.fit(replace(case, device=device)) for case in cases)
    return [_make_sample(harness.create_context(case)) for case in fitted]


def _collect_weight_samples(harness: Harness, device: str) -> list[Sample]:
    """Collect a case on which the outputs are attention weights, if the contract permits one."""
    case = harness.contract.fit(replace(CASES[0], mask_form=MaskForm.NONE, device=device))
    if not harness.contract.has(*tomography.REQUIRED_CAPABILITIES) or case.d_in < 2:
        return []
    context = harness.create_context(case)
    return [
        _make_sample(
            context,
            tomography.make_sequence(case, 0, tomography.compute_payload_width(case)),
            tomography.make_routing_parameters(context),
        )
    ]


def _make_sample(
    context: LiveContext, x: Tensor | None = None, parameters: Parameters | None = None
) -> Sample:
    x = context.x if x is None else x
    parameters = parameters or context.parameters
    visible = context.may_attend(context.case.tokens, context.mask)
    return Sample(
        make_attention_inputs(context.contract, context.case, x, parameters, visible),
        _observe_answer(context, x, parameters),
        get_correct_pipeline(context.contract),
    )


def _observe_answer(
    context: LiveContext, x: Tensor, parameters: Parameters
) -> tuple[Tensor, ...] | None:
    """Return whatever the submission returns; None if it raises."""
    try:
        _set_parameters(context.adapter, parameters)
        returned = context.adapter.forward(x, context.mask, CallOptions())
    except SubmissionFailed as failure:
        if failure.status is Status.CRASHED:
            return None
        raise
    return tuple(output.to(torch.float64) for output in returned.outputs)


def _set_parameters(adapter: ModuleAdapter, parameters: Parameters) -> None:
    """Set these parameters; where the module lacks some, those that it has."""
    try:
        adapter.set(parameters)
    except SubmissionFailed:
        present = adapter.holder.describe_tensors()
        stored = dict(adapter.contract.to_stored(parameters, adapter.case))
        if stored.keys() <= present.keys():
            raise
        adapter.holder.write({path: stored[path] for path in stored if path in present})
        adapter.current_parameters = parameters


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
    """Explain two outputs that are computed apart, each by mistakes of its own."""
    # Each part is a single result, so mistakes about which results are returned cannot occur.
    mistakes = [m for m in mistakes if not any("give" in overrides for overrides in m.variants)]
    parts = [[sample.select_output(i) for sample in samples] for i in (0, 1)]
    found = [_explain(part, mistakes, pairs=False) for part in parts]
    one, other = map(_list_ways, parts, found)
    ways = tuple(itertools.starmap(operator.add, itertools.product(one, other)))
    named = {d.mistake: replace(d, ways=ways) for explained in found for d in explained}
    return tuple(named.values())


def _list_ways(
    samples: Sequence[Sample], explained: Sequence[DiagnosedMistake]
) -> tuple[Pipelines, ...]:
    """Return the ways of what is explained, the correct one of what is right, or none."""
    if explained:
        return explained[0].ways
    return () if any(sample.is_wrong for sample in samples) else ((samples[0].base,),)


def _make_diagnosed_mistakes(
    explanations: Sequence[tuple[Mistakes, Pipeline]], samples: Sequence[Sample]
) -> tuple[DiagnosedMistake, ...]:
    best, _ = explanations[0]
    single = [mistakes[0] for mistakes, _ in explanations if len(mistakes) == 1]
    others = tuple(dict.fromkeys(m for m in single if m not in best and not m.rare))
    matched = sum(sample.has_finite_answer for sample in samples)
    ways = tuple((pipeline,) for mistakes, pipeline in explanations if mistakes == best)
    return tuple(DiagnosedMistake(m, matched, len(samples), others, ways) for m in best)


def _iter_explaining_pipelines(sample: Sample, overrides: StepOverrides) -> Iterator[Pipeline]:
    """Yield pipelines that explain a sample: with these overrides, or with a NaN workaround too."""
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
