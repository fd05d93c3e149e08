"""Samples: a submission's answers to cases that tell mistakes apart."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from headcheck.properties.bounds.precision import PRECISIONS
from headcheck.properties.cases.case_tensors import make_other_tokens
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.harness import tomography
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.harness.module_adapter import ModuleAdapter
from headcheck.properties.mistakes.catalogue import Mistake
from headcheck.properties.mistakes.evaluation import (
    MemoisedEvaluator,
    get_correct_pipeline,
    make_attention_inputs,
)
from headcheck.properties.mistakes.mistake_table import Candidate, build_table, make_key
from headcheck.properties.mistakes.pipeline import AttentionInputs, Pipeline, PipelineState
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.case import Case, InputContent, MaskForm, MaskType
from headcheck.properties.violations.violation import Status, SubmissionFailed
from headcheck.reference import Parameters

CASES = (
    Case(
        batch=2, tokens=5, context_length=6, d_in=7, heads=3, head_dim=4, d_latent=9, rope_dim=2,
        bias=True, sharpness=2, mask_form=MaskForm.BATCH_HEAD_QUERY_KEY, seed=2001,
    ),
    Case(
        batch=3, tokens=4, context_length=4, d_in=5, heads=2, head_dim=6, d_latent=7, rope_dim=8,
        sharpness=2, mask_form=MaskForm.BATCH_ONE_ONE_KEY, mask_type=MaskType.INT, seed=2002,
    ),
    Case(
        batch=2, tokens=7, context_length=11, d_in=8, heads=4, head_dim=2, d_latent=5, rope_dim=6,
        bias=True, sharpness=2, mask_form=MaskForm.QUERY_KEY, mask_type=MaskType.FLOAT, seed=2003,
    ),
    Case(batch=1, tokens=9, context_length=9, d_in=4, head_dim=4, sharpness=2, seed=2004),
    Case(
        batch=2, tokens=6, context_length=6, d_in=6, heads=2, head_dim=3, content=InputContent.ZERO,
        seed=2005,
    ),
    Case(batch=2, tokens=3, context_length=3, d_in=3, head_dim=3, bias=True, seed=2012),
    Case(batch=2, tokens=5, context_length=7, d_in=5, head_dim=5, seed=2013),
    Case(batch=2, tokens=19, context_length=20, d_in=3, heads=2, head_dim=2, seed=2006),
)  # fmt: skip
"""Cases on which mistakes differ. Some mistakes run without an error only if d_in = d_out.

The masks have all types, so that a mistake with one type of mask can be distinguished from a
mistake with all types.
"""

EXTREME_CASES = tuple(
    replace(CASES[2], batch=8, sharpness=sharpness, mask_form=form, seed=seed)
    for sharpness, form, seed in (
        (100, MaskForm.QUERY_KEY, 2007),
        (250, MaskForm.BATCH_ONE_QUERY_KEY, 2008),
        (1000, MaskForm.ONE_HEAD_QUERY_KEY, 2009),
        (100_000, MaskForm.BATCH_HEAD_QUERY_KEY, 2010),
    )
)
"""Cases for answers that are correct on `CASES`: their scores exceed fill values or overflow
exponentials."""

EXTREME_CROSS_CASE = replace(CASES[2], batch=8, sharpness=10**12, seed=2018)
"""A case whose scores are so far apart that no exponential is inexact because of underflow."""
EXTREME_KEYS = 2
"""a number of keys for cross-attention, so small that all scores of a query may be far below zero
"""

PADDED_CASE = replace(CASES[1], tokens=7, context_length=7, seed=2017)
"""A case in which all sequences have padding between tokens, which distinguishes mistakes about
padding."""

OTHER_LENGTHS = (0, 3, -2)
"""how many more tokens the other sequence has in cross-attention, for each case"""
ALIGNED_LENGTHS = (0, 3, 2)
"""the same differences if the queries are the last of the other tokens"""


class Sample:
    """One case with its inputs, the submission's answer, and an evaluator of pipelines.

    The answer is compared with the exactness of a given dtype, since some submissions compute a
    step in float32.
    """

    def __init__(
        self,
        inputs: AttentionInputs,
        answer: tuple[Tensor, ...] | None,
        base: Pipeline,
        exact_as: str = "float64",
        *,
        crash_is_known: bool = False,
    ) -> None:
        self.inputs = inputs
        self.answer = answer
        self.base = base
        self.exact_as = exact_as
        self.crash_is_known = crash_is_known
        """whether a crash is explained, because the property about a peculiarity of the case failed
        """
        self.evaluator = MemoisedEvaluator(inputs, base)

    @cached_property
    def correct_state(self) -> PipelineState:
        state = self.evaluator.evaluate(self.base)
        assert state is not None, "the correct pipeline can be evaluated on every case"
        return state

    @cached_property
    def is_wrong(self) -> bool:
        """Whether the submission's answer is finite, but not correct."""
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
        relative = 2**8 * PRECISIONS[self.exact_as].u * (1 + largest)
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
        """Whether a pipeline gives this answer, or fails on this input as the submission does."""
        if self.answer is None and self.crash_is_known:
            return True
        state = self.evaluator.evaluate(pipeline)
        if state is None or self.answer is None:
            return state is None and self.answer is None
        return self.matches_answer(state.answer)

    def select_output(self, index: int) -> "Sample":
        """Return a sample with one of the two outputs, as if it were the only one."""
        answer = None if self.answer is None else self.answer[index : index + 1]
        inputs, known = replace(self.inputs, wanted=("matrix",)), self.crash_is_known
        return Sample(inputs, answer, self.base, crash_is_known=known)

    def be_exact_as(self, dtype: str) -> "Sample":
        """Return the same sample, with the answer taken to be only as exact as this dtype."""
        known = self.crash_is_known
        return Sample(self.inputs, self.answer, self.base, dtype, crash_is_known=known)


def _is_close(got: Tensor, other: Tensor, tolerance: float, finite: Tensor | None) -> bool:
    if finite is not None and not torch.equal(finite, other.isfinite()):
        return False
    close = (got - other).abs() <= tolerance
    return bool((close if finite is None else close[finite]).all())


# ------------------------------------------------------------------------------- samples


def collect_samples(harness: Harness, cases: Iterable[Case], device: str) -> list[Sample]:
    """Collect the answers to cases, adapted to the contract."""
    fitted = dict.fromkeys(harness.contract.fit(replace(case, device=device)) for case in cases)
    return [_make_sample(harness.create_context(case)) for case in fitted]


def collect_extreme_samples(harness: Harness, cases: Iterable[Case], device: str) -> list[Sample]:
    """Collect the answers to cases, and to a case of cross-attention to few keys."""
    samples = collect_samples(harness, cases, device)
    has = harness.contract.has
    if not has(Capability.CROSS) or has(Capability.CAUSAL):
        return samples  # causal queries are the last tokens: there are never more than keys
    drawn = replace(EXTREME_CROSS_CASE, mask_form=MaskForm.NONE, device=device)
    context = harness.create_context(harness.contract.fit(drawn))
    others = make_other_tokens(context.case, harness.contract, EXTREME_KEYS)
    return [*samples, _make_sample(context, others=others)]


def collect_weight_samples(harness: Harness, device: str) -> list[Sample]:
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


def collect_cross_samples(harness: Harness, device: str) -> list[Sample]:
    """Collect cases in which one sequence attends to another, if the contract permits it."""
    if not harness.contract.has(Capability.CROSS):
        return []
    return [
        sample
        for causal in (False, True)[: 1 + harness.contract.has(Capability.CAUSAL_OPTION)]
        for sample in _iter_cross_samples(harness, device, causal=causal)
    ]


def _iter_cross_samples(harness: Harness, device: str, *, causal: bool) -> Iterator[Sample]:
    aligned = causal or harness.contract.has(Capability.CAUSAL)
    for case, longer in zip(CASES, ALIGNED_LENGTHS if aligned else OTHER_LENGTHS, strict=False):
        drawn = replace(case, mask_form=MaskForm.NONE, device=device, causal=causal)
        context = harness.create_context(harness.contract.fit(drawn))
        yield _make_sample(context, others=_make_others(context, longer))


def collect_padding_samples(harness: Harness, device: str) -> list[Sample]:
    """Collect a case with padding at any place, if the contract includes padding."""
    cases = [PADDED_CASE] if harness.contract.has(Capability.PADDING) else []
    return collect_samples(harness, cases, device)


def _make_others(context: LiveContext, longer: int) -> tuple[Tensor, ...]:
    case, contract = context.case, context.contract
    return make_other_tokens(case, contract, max(1, case.tokens + longer))


def _make_sample(
    context: LiveContext,
    x: Tensor | None = None,
    parameters: Parameters | None = None,
    others: Sequence[Tensor] = (),
) -> Sample:
    x = context.x if x is None else x
    parameters = parameters or context.parameters
    keys = others[0].shape[-2] if others else None
    visible = context.may_attend(context.case.tokens, context.mask, keys)
    return Sample(
        make_attention_inputs(context.contract, context.case, x, parameters, visible, others),
        _observe_answer(context, x, parameters, others),
        get_correct_pipeline(context.contract),
        crash_is_known=any(each.is_in(context.case) for each in context.harness.unsupported),
    )


def _observe_answer(
    context: LiveContext, x: Tensor, parameters: Parameters, others: Sequence[Tensor]
) -> tuple[Tensor, ...] | None:
    """Return whatever the submission returns; None if it raises."""
    try:
        set_present_parameters(context.adapter, parameters)
        if others:
            returned = context.adapter.forward_apart(x, others)
        else:
            returned = context.adapter.forward(x, context.mask, CallOptions())
    except SubmissionFailed as failure:
        if failure.status is Status.CRASHED:
            return None
        raise
    return tuple(output.to(torch.float64) for output in returned.outputs)


def set_present_parameters(adapter: ModuleAdapter, parameters: Parameters) -> frozenset[str]:
    """Set these parameters; if the module lacks some of them, set the others, and return these.

    Raises SubmissionFailed if it may keep the missing ones elsewhere, since its weights are then
    unknown.
    """
    try:
        adapter.set(parameters)
    except SubmissionFailed:
        present = adapter.holder.describe_tensors(unregistered=True)
        stored = dict(adapter.contract.to_stored(parameters, adapter.case))
        others = (info for path, info in present.items() if path not in stored)
        if stored.keys() <= present.keys() or any(info.trainable for info in others):
            raise
        adapter.holder.write({path: stored[path] for path in stored if path in present})
        adapter.current_parameters = parameters
        return frozenset(stored.keys() - present.keys())
    return frozenset()
