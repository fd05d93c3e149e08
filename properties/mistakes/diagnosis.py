"""Name the mistake: find the known misconception that computes what a submission computes.

A few cases are chosen on which misconceptions differ: all sizes differ from each other, so that no
divisor can be taken for another; scores are sharp enough for a wrong scale to show; one case shows
the attention weights themselves (`properties.harness.tomography`). The submission answers them, and
every misconception of `properties.mistakes.catalogue` is followed on the same numbers. It is named
only if it explains every answer, bit for bit but for rounding. Most are refuted by the first case.

An answer is explained within 2⁸ u (1 + max |q kᵀ|) of its largest element, with u the roundoff of
float64: the bound of `properties.tolerance` for the scores that a wrong scale may have, as one
number. No two misconceptions of the catalogue come that near to each other.
"""

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
from properties.mistakes import dropout_diagnosis
from properties.mistakes.catalogue import DETERMINISTIC, Mistake
from properties.mistakes.mistake_table import (
    Candidate,
    Mistakes,
    apply_nan_workarounds,
    build_table,
    is_finite,
    make_key,
)
from properties.mistakes.pipeline import (
    CORRECT,
    WITHOUT_ATTENTION,
    AttentionInputs,
    MemoisedEvaluator,
    Pipeline,
    PipelineState,
    StepOverrides,
)
from properties.oracle import get_scale
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
"""Where misconceptions differ. Those with d_in = d_out are for what only runs there."""

EXTREME_CASES = tuple(
    replace(CASES[2], batch=8, sharpness=sharpness, mask_form=form, seed=seed)
    for sharpness, form, seed in (
        (100, MaskForm.QUERY_KEY, 2007),
        (250, MaskForm.BATCH_ONE_QUERY_KEY, 2008),
        (1000, MaskForm.ONE_HEAD_QUERY_KEY, 2009),
        (100_000, MaskForm.BATCH_HEAD_QUERY_KEY, 2010),
    )
)
"""For answers that are right on the others: scores that outweigh a fill and overflow an exp."""

MIN_ANSWERS = 3
"""how many answers there must be to explain"""


@dataclass(frozen=True)
class DiagnosedMistake:
    """A mistake that explains the answers."""

    mistake: Mistake
    cases_matched: int
    """answers that it explains"""
    cases_tried: int
    """cases that were tried"""
    indistinguishable: tuple[Mistake, ...] = ()
    """other mistakes that would have given the same answers"""
    pipeline: Pipeline | None = None
    """what gives the answers, with this mistake and those found beside it; None if not known"""


def diagnose(harness: Harness, device: str = "cpu") -> tuple[DiagnosedMistake, ...]:
    """The mistakes that explain what a submission computes; none if it is right, or unknown.

    A submission that raises on a case says nothing there, unless the mistake cannot be followed
    there either.
    """
    try:
        # Modules of the size of a real model take a second to make.
        few = harness.contract.sizes is not None
        cases, extreme = (CASES[:MIN_ANSWERS], EXTREME_CASES[:1]) if few else (CASES, EXTREME_CASES)
        samples = [
            *_collect_samples(harness, cases, device),
            *_collect_weight_samples(harness, device),
        ]
        if not any(sample.is_wrong for sample in samples):
            samples += _collect_samples(harness, extreme, device)
    except SubmissionFailed:
        return ()  # out of time or memory: nothing that could be compared
    mistakes = [
        m
        for m in DETERMINISTIC
        if not m.needs_several_heads or harness.contract.has(Capability.HEADS)
    ]
    if harness.contract.returns is not Returns.WEIGHTS_TWICE:
        return _explain(samples, mistakes, pairs=not few) or _diagnose_dropout(harness, device)
    parts = [[sample.select_output(i) for sample in samples] for i in (0, 1)]
    # What is returned besides, or instead, is no question where there is one thing to return.
    mistakes = [m for m in mistakes if not any("give" in overrides for overrides in m.variants)]
    found = [finding for each in parts for finding in _explain(each, mistakes, pairs=False)]
    return tuple({finding.mistake: finding for finding in found}.values())


def _diagnose_dropout(harness: Harness, device: str) -> tuple[DiagnosedMistake, ...]:
    try:
        found = dropout_diagnosis.diagnose_dropout(harness, device)
    except (SubmissionFailed, Violation):
        return ()
    return (DiagnosedMistake(found, 2, 2),) if found else ()


class Sample:
    """One case, what the submission answered, and what every recipe gives."""

    def __init__(
        self, inputs: AttentionInputs, answer: tuple[Tensor, ...] | None, base: Pipeline
    ) -> None:
        self.inputs = inputs
        self.answer = answer
        self.base = base
        self.evaluator = MemoisedEvaluator(inputs, base)

    @cached_property
    def correct_state(self) -> PipelineState:
        steps = self.evaluator.evaluate(self.base)
        assert steps is not None, "the right recipe can be followed on every case"
        return steps

    @cached_property
    def is_wrong(self) -> bool:
        """Whether the submission answered, with numbers, and not with the right ones."""
        return self.has_finite_answer and not self.matches_answer(self.correct_state.answer)

    @cached_property
    def has_finite_answer(self) -> bool:
        """Whether there are finite numbers in the answer."""
        return self.answer is not None and any(bool(t.isfinite().any()) for t in self.answer)

    @cached_property
    def _finite(self) -> list[Tensor | None]:
        """Which elements of each tensor of the answer are finite; None where all are."""
        masks = [t.isfinite() for t in self.answer or ()]
        return [None if bool(mask.all()) else mask for mask in masks]

    @cached_property
    def _tolerances(self) -> list[float]:
        largest = float(self.correct_state.raw_scores.abs().max())
        relative = 2**8 * PRECISIONS["float64"].u * (1 + largest)
        finite = [t[t.isfinite()].abs() for t in self.answer or ()]
        return [relative * float(t.max()) if t.numel() else 0.0 for t in finite]

    def matches_answer(self, other: tuple[Tensor, ...]) -> bool:
        """Whether these are the answer, but for rounding; what is not finite, is it in both."""
        answer = self.answer or ()
        return len(answer) == len(other) and all(
            a.shape == b.shape and _is_close(a, b, tolerance, finite)
            for a, b, tolerance, finite in zip(
                answer, other, self._tolerances, self._finite, strict=True
            )
        )

    def find_candidates(self, mistakes: Sequence[Mistake], *, pairs: bool) -> Iterator[Candidate]:
        """The mistakes, or pairs of them, that may explain this answer."""
        wanted = make_key(self.inputs, self.base, mistakes, pairs=pairs)
        return build_table(wanted).find_candidates(self.answer or (), self._tolerances)

    def is_explained_by(self, pipeline: Pipeline) -> bool:
        """Whether a recipe gives this answer, as far as there is one."""
        steps = self.evaluator.evaluate(pipeline)
        if self.answer is None or not self.has_finite_answer:
            return True
        return steps is not None and self.matches_answer(steps.answer)

    def select_output(self, index: int) -> "Sample":
        """One of two answers, as if it had been the only one asked for."""
        one = None if self.answer is None else self.answer[index : index + 1]
        return Sample(replace(self.inputs, wanted=("matrix",)), one, self.base)


def _is_close(got: Tensor, other: Tensor, tolerance: float, finite: Tensor | None) -> bool:
    if finite is None:
        return bool(((got - other).abs() <= tolerance).all())
    if not torch.equal(finite, other.isfinite()):
        return False
    return bool(((got - other).abs() <= tolerance)[finite].all())


# ------------------------------------------------------------------------------- samples


def _collect_samples(harness: Harness, cases: Iterable[Case], device: str) -> list[Sample]:
    fitted = dict.fromkeys(harness.contract.fit(replace(case, device=device)) for case in cases)
    return [_make_sample(harness.create_context(case)) for case in fitted]


def _collect_weight_samples(harness: Harness, device: str) -> list[Sample]:
    """A case on which the outputs are attention weights."""
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
    base = CORRECT if context.contract.has(Capability.ATTENTION) else WITHOUT_ATTENTION
    return Sample(
        make_attention_inputs(context, x, parameters), _observe_answer(context, x, parameters), base
    )


def make_attention_inputs(
    context: LiveContext, x: Tensor, parameters: Parameters
) -> AttentionInputs:
    """What a recipe is followed on, in a trial."""
    contract, case = context.contract, context.case
    return AttentionInputs(
        x=x,
        parameters=parameters,
        heads=case.heads,
        may_attend=context.may_attend(case.tokens, context.mask),
        scale=get_scale(contract, case),
        context_length=case.context_length,
        causal=contract.has(Capability.CAUSAL),
        wanted=("output", "weights")
        if contract.returns is Returns.OUTPUT_AND_WEIGHTS
        else ("output",),
    )


def _observe_answer(
    context: LiveContext, x: Tensor, parameters: Parameters
) -> tuple[Tensor, ...] | None:
    """What comes back, in whatever form; None if the submission raises."""
    try:
        _set_parameters(context.adapter, parameters)
        returned = context.adapter.forward(x, context.mask, CallOptions())
    except SubmissionFailed as failure:
        if failure.status is Status.CRASHED:
            return None
        raise
    return tuple(output.to(torch.float64) for output in returned.outputs)


def _set_parameters(adapter: ModuleAdapter, parameters: Parameters) -> None:
    """Give it these parameters; where it lacks some, those that it has."""
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
            found = [
                (names, pipeline)
                for names, overrides in first.find_candidates(mistakes, pairs=together)
                for pipeline in _iter_explaining_pipelines(first, overrides)
                if all(sample.is_explained_by(pipeline) for sample in others)
            ]
            if found:
                return _make_diagnosed_mistakes(found, samples)
    return ()


def _make_diagnosed_mistakes(
    found: Sequence[tuple[Mistakes, Pipeline]], samples: Sequence[Sample]
) -> tuple[DiagnosedMistake, ...]:
    best, pipeline = found[0]
    single = [names[0] for names, _ in found if len(names) == 1]
    alike = dict.fromkeys(m for m in single if m not in best and not m.rare)
    matched = sum(sample.has_finite_answer for sample in samples)
    return tuple(
        DiagnosedMistake(each, matched, len(samples), tuple(alike), pipeline) for each in best
    )


def _iter_explaining_pipelines(sample: Sample, overrides: StepOverrides) -> Iterator[Pipeline]:
    """A recipe with a change if it explains a sample; and with what people do about NaN."""
    pipeline = sample.base.override(overrides)
    steps = sample.evaluator.evaluate(pipeline)
    if steps is None:
        return
    explains = sample.matches_answer(steps.answer)
    if explains:
        yield pipeline
    # Where there is no NaN here, there may be one on other samples.
    if explains or not is_finite(steps.answer):
        yield from filter(sample.is_explained_by, apply_nan_workarounds(sample.base, overrides))
