"""What can be drawn of the claims that do not hold: numbers for pictures, taken after the verdicts.

The first claim about values gets the attention weights and, where the diagnosis names a mistake in
splitting or merging heads, the way of every number. The first claim about the mask gets which
outputs moved. No other is drawn, so that a submission with a hundred failures costs no more than
one with two. Nothing here decides anything: where no picture can be taken, there is none.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from grader.grading.explain import UNDIAGNOSABLE
from grader.grading.reshaping import trace_layouts
from grader.report.records import (
    BoolMatrix,
    EvidenceRecord,
    FloatMatrix,
    InfluenceEvidence,
    PropertyRecord,
)
from grader.report.records import WeightsEvidence as Weights
from properties.case import Case
from properties.cases.case_transforms import transform_cases
from properties.contract import Capability, Contract, Returns
from properties.harness import tomography
from properties.harness.harness import Harness, LiveContext
from properties.mistakes.diagnosis import DiagnosedMistake, make_attention_inputs
from properties.mistakes.pipeline import (
    CORRECT,
    SHAPE_ERRORS,
    MemoisedEvaluator,
    Pipeline,
    PipelineState,
)
from properties.property import PropertyGroup, Verdict
from properties.tolerance import PRECISIONS
from properties.violation import SubmissionFailed, Violation, ViolationKind

MAX_TOKENS = 6
"""how many tokens a picture shows: more would be too small to read"""
MIN_TOKENS = 4
"""how many tokens a picture shows where the case can be given so many: of two there is little to
see"""
MIN_SHARPNESS = 2
"""standard deviation of the scores, at least: of nearly equal weights little is seen"""
MAX_WIDTH = 64
"""modules wider than this take too long to make again for a picture"""
MIN_DIFFERENCE = 1e-5
"""a weight that is off by less is no mistake to look at: float32 may be off by that"""
SIGNIFICANT_DIGITS = 6

T = TypeVar("T")
VALUE_GROUPS = (
    PropertyGroup.VALUES,
    PropertyGroup.WEIGHTS,
    PropertyGroup.SCALE,
    PropertyGroup.HEADS,
    PropertyGroup.MASK,
)
EVIDENCE_ERRORS = (SubmissionFailed, Violation, *SHAPE_ERRORS)
"""What ends the taking of a picture: the submission, its process, or shapes that do not fit."""


def attach_evidence(
    records: Sequence[PropertyRecord],
    verdicts: Sequence[Verdict],
    harness: Harness,
    found: Sequence[DiagnosedMistake],
) -> list[PropertyRecord]:
    """The same records, some with evidence. `bench` needs a process that still answers.

    Of what took too long or too much memory nothing is asked again.
    """
    if any(verdict.status in UNDIAGNOSABLE for verdict in verdicts):
        return list(records)
    evidence: dict[int, EvidenceRecord] = {}
    with harness.suppress_notes(), torch.no_grad():
        for at, taken in _collect_evidence(verdicts, harness, found):
            evidence[at] = _merge_evidence(evidence.get(at, EvidenceRecord()), taken)
    return [
        replace(record, evidence=evidence[i]) if i in evidence else record
        for i, record in enumerate(records)
    ]


def _merge_evidence(one: EvidenceRecord, other: EvidenceRecord) -> EvidenceRecord:
    return EvidenceRecord(
        one.weights or other.weights,
        one.influence or other.influence,
        one.layouts or other.layouts,
    )


def _collect_evidence(
    verdicts: Sequence[Verdict], harness: Harness, found: Sequence[DiagnosedMistake]
) -> Iterator[tuple[int, EvidenceRecord]]:
    """Evidence, each with the number of the verdict that it belongs to."""
    pipeline = next((finding.pipeline for finding in found if finding.pipeline is not None), None)
    about_values = _find_first_failure(verdicts, VALUE_GROUPS)
    if about_values is not None:
        at, case = about_values
        ways = trace_layouts(pipeline) if pipeline is not None else ()
        seen = _measure_first(lambda context: measure_weights(context, pipeline), harness, case)
        if ways or seen is not None:
            yield at, EvidenceRecord(weights=seen, layouts=ways)
    about_the_mask = _find_first_failure(verdicts, (PropertyGroup.MASK,))
    if about_the_mask is not None:
        at, case = about_the_mask
        moved = _measure_first(measure_influence, harness, case)
        if moved is not None:
            yield at, EvidenceRecord(influence=moved)


def _find_first_failure(
    verdicts: Sequence[Verdict], groups: Sequence[PropertyGroup]
) -> tuple[int, Case] | None:
    """The first verdict on a claim of these groups that a number broke, and its case."""
    for i, verdict in enumerate(verdicts):
        broken = verdict.violation is not None and verdict.case is not None
        if broken and verdict.property.group in groups:
            assert verdict.violation is not None and verdict.case is not None
            if verdict.violation.kind in (ViolationKind.VALUE, ViolationKind.FINITE):
                return i, verdict.case
    return None


def _measure_first(
    take: Callable[[LiveContext], T | None], harness: Harness, case: Case
) -> T | None:
    """What the first case shows on which there is something to see."""
    for shown in choose_cases(harness.contract, case):
        with suppress(*EVIDENCE_ERRORS):
            taken = take(harness.create_context(shown))
            if taken is not None:
                return taken
    return None


def choose_cases(contract: Contract, case: Case) -> tuple[Case, ...]:
    """The cases that are drawn: with as many tokens as can be looked at, else the one that failed.

    None of them where the modules of the contract are too large.
    """
    tokens = min(max(case.tokens, MIN_TOKENS), MAX_TOKENS)
    longest = max(case.context_length, tokens)
    sharp = max(case.sharpness, MIN_SHARPNESS)
    better = contract.fit(replace(case, tokens=tokens, context_length=longest, sharpness=sharp))
    return tuple(c for c in dict.fromkeys((better, case)) if max(c.d_in, c.d_out) <= MAX_WIDTH)


# ------------------------------------------------------------------------------------- weights


def measure_weights(context: LiveContext, pipeline: Pipeline | None = None) -> Weights | None:
    """The attention weights where they are most wrong; None if they are right or out of reach.

    Those that were returned. If these are right: where the mistake is known, those that follow
    from it, else those that can be read from outputs. Raises SubmissionFailed, Violation.
    """
    ways = (
        (_compare_returned_weights, _compare_recovered_weights)
        if pipeline is None
        else (_compare_returned_weights, _make_followed_comparison(pipeline))
    )
    for way in ways:
        found = way(context)
        if found is not None:
            return found
    return None


def _compare_returned_weights(context: LiveContext) -> Weights | None:
    visible = context.may_attend(context.case.tokens, context.mask)
    rows = zip(context.output_names, context.expected.outputs, strict=True)
    for i, (name, expected) in enumerate(rows):
        if name != "output" and context.contract.returns is not Returns.OUTPUT:
            pair = (expected, context.answer[i])
            four = [t.unsqueeze(1) if t.dim() == 3 else t for t in pair]
            shown = _find_worst(context.case, four[0], four[1], visible)
            if shown is not None:
                return replace(shown, of=name, made="returned")
    return None


def _compare_recovered_weights(context: LiveContext) -> Weights | None:
    if not context.contract.has(*tomography.REQUIRED_CAPABILITIES):
        return None
    for case in transform_cases(context.contract, tomography.fit_for_recovery, [context.case]):
        fresh = context.harness.create_context(case)
        seen = tomography.recover_weights(fresh)
        visible = fresh.may_attend(case.tokens, None)
        return _find_worst(case, seen.expected[None], seen.weights[None], visible)
    return None


def _make_followed_comparison(pipeline: Pipeline) -> Callable[[LiveContext], Weights | None]:
    def compare_followed_weights(context: LiveContext) -> Weights | None:
        if not context.contract.has(Capability.ATTENTION):
            return None
        evaluator = MemoisedEvaluator(
            make_attention_inputs(context, context.x, context.parameters), CORRECT
        )
        right, wrong = evaluator.evaluate(CORRECT), evaluator.evaluate(pipeline)
        if right is None or wrong is None or _has_other_shape(right, wrong):
            return None
        visible = context.may_attend(context.case.tokens, context.mask)
        shown = _find_worst(context.case, right.applied_weights, wrong.applied_weights, visible)
        return None if shown is None else replace(shown, made="followed")

    return compare_followed_weights


def _has_other_shape(right: PipelineState, wrong: PipelineState) -> bool:
    return wrong.applied_weights.shape != right.applied_weights.shape


def _find_worst(
    case: Case, expected: Tensor, got: Tensor, visible: Tensor | None
) -> Weights | None:
    """The head and sequence, and the part of the matrix, where weights are most wrong."""
    b, h, t, _ = expected.shape
    if got.shape != expected.shape:
        return None
    off = (got - expected).abs().nan_to_num(torch.inf, torch.inf)
    if float(off.max()) < MIN_DIFFERENCE:
        return None
    at = int(off.argmax())
    sequence, head, query, key = at // (h * t * t), at // (t * t) % h, at // t % t, at % t
    rows, columns = _choose_window(query, t), _choose_window(key, t)
    may = torch.ones(1, 1, t, t, dtype=torch.bool) if visible is None else visible
    part = (sequence, head, slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    return Weights(
        case=str(case),
        length=case.tokens,
        of="weights",
        made="recovered",
        sequence=sequence,
        head=head,
        queries=rows,
        keys=columns,
        may_attend=_to_bool_matrix(may.expand(b, h, t, t)[part]),
        expected=_to_float_matrix(expected[part]),
        got=_to_float_matrix(got[part]),
    )


def _choose_window(at: int, tokens: int) -> tuple[int, ...]:
    """So many neighbouring tokens as are shown, the one at `at` among them."""
    start = max(0, at - MAX_TOKENS + 1)
    return tuple(range(start, min(start + MAX_TOKENS, tokens)))


# ----------------------------------------------------------------------------------- influence


def measure_influence(context: LiveContext) -> InfluenceEvidence | None:
    """Which outputs moved as each token changed; None where just those moved that should.

    None, too, if the answer to one input changes by itself: then nothing can be told. One call for
    each token, since stacked in a batch one sequence might move another. Raises SubmissionFailed,
    Violation.
    """
    case = context.case
    if not context.contract.has(Capability.TOKENS) or case.tokens < 2:
        return None
    tokens = range(min(case.tokens, MAX_TOKENS))
    base, again = context.run(memory="contiguous")[0], context.run(memory="contiguous")[0]
    if not torch.equal(base, again):
        return None
    moved = [_measure_movement(context, token, base) for token in tokens]
    got = torch.stack([m[0] for m in moved], -1)[:, : len(tokens)]
    expected = torch.stack([m[1] for m in moved], -1)[:, : len(tokens)]
    may = _compute_allowed_influence(context)[:, : len(tokens), : len(tokens)]
    wrong = (got & ~may) | (expected & ~got)
    if not bool(wrong.any()):
        return None
    sequence = int(wrong.flatten(1).sum(1).argmax())
    return InfluenceEvidence(
        case=str(case),
        length=case.tokens,
        sequence=sequence,
        tokens=tuple(tokens),
        may=_to_bool_matrix(may[sequence]),
        expected=_to_bool_matrix(expected[sequence]),
        got=_to_bool_matrix(got[sequence]),
    )


def _measure_movement(context: LiveContext, token: int, base: Tensor) -> tuple[Tensor, Tensor]:
    """Which outputs move when a token changes: those of the submission, and those of the oracle."""
    x = context.x.clone()
    x[:, token] = 3 - 2 * x[:, token]
    right, exact = context.expected, context.compute_expected(x)
    rounding = 512 * PRECISIONS[context.case.dtype].u * base.abs().nan_to_num().max()
    slack = 2 * (right.tolerances[0].float32 + exact.tolerances[0].float32) + rounding
    got = (context.run(x)[0] - base).abs() > slack
    expected = (exact.outputs[0] - right.outputs[0]).abs() > slack
    return got.any(-1), expected.any(-1)


def _compute_allowed_influence(context: LiveContext) -> Tensor:
    """For every output of every sequence, the tokens that it may depend on: its own, always."""
    b, h, t = context.case.batch, context.case.heads, context.case.tokens
    visible = context.may_attend(t, context.mask)
    may = torch.ones(t, t, dtype=torch.bool) if visible is None else visible
    return may.expand(b, h, t, t).any(1) | torch.eye(t, dtype=torch.bool)


def _to_float_matrix(matrix: Tensor) -> FloatMatrix:
    return tuple(tuple(_round_number(v) for v in row) for row in matrix.tolist())


def _round_number(value: float) -> float | None:
    """A number as it is worth keeping; None for what is no finite number, which JSON lacks."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if abs(value) < float("inf") else None


def _to_bool_matrix(matrix: Tensor) -> BoolMatrix:
    return tuple(tuple(row) for row in matrix.tolist())
