"""Evidence for failed properties: numbers for figures, measured after the verdicts.

The first failed property about values gets the attention weights and, if the diagnosis names a
mistake in splitting or merging heads, the origin of every number. The first failed property about
the mask gets the list of outputs that changed. No other property gets evidence, so that a
submission with a hundred failures costs no more than one with two. Evidence affects no verdict. If
it cannot be measured, none is attached.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from headcheck.grader.grading.diagnosis import UNDIAGNOSABLE, VALUE_GROUPS
from headcheck.grader.grading.reshaping import trace_layouts
from headcheck.grader.report.records import (
    BoolMatrix,
    EvidenceRecord,
    FloatMatrix,
    InfluenceEvidence,
    PropertyRecord,
)
from headcheck.grader.report.records import WeightsEvidence as Weights
from headcheck.properties import comparison
from headcheck.properties.bounds.precision import PRECISIONS
from headcheck.properties.cases.case_transforms import transform_cases
from headcheck.properties.contracts.contract import Capability, Contract, Entry
from headcheck.properties.families.transfer import every_weight_arrives
from headcheck.properties.harness import tomography
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.mistakes.evaluation import MemoisedEvaluator, make_attention_inputs
from headcheck.properties.mistakes.pipeline import CORRECT, SHAPE_ERRORS, Pipeline
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from headcheck.properties.property import PropertyGroup, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import SubmissionFailed, Violation, ViolationKind

MAX_TOKENS = 6
"""the most tokens in a figure: more would be too small to read"""
MIN_TOKENS = 4
"""the fewest tokens in a figure, if the case allows it: two tokens show little"""
MIN_SHARPNESS = 2
"""the smallest standard deviation of the scores: nearly equal weights show little"""
MAX_MEASURED_TOKENS = 64
"""longer sequences are cut to this length before a figure shows a part of them"""
MAX_WIDTH = 64
"""modules wider than this take too long to construct again for a figure"""
MIN_DIFFERENCE = 1e-5
"""the smallest error of a weight that counts: float32 may cause smaller ones"""
SIGNIFICANT_DIGITS = 6

T = TypeVar("T")
EVIDENCE_ERRORS = (SubmissionFailed, Violation, *SHAPE_ERRORS)
"""The exceptions that end a measurement: from the submission, its process, or shapes that do not
match."""


def attach_evidence(
    records: Sequence[PropertyRecord],
    verdicts: Sequence[Verdict],
    harness: Harness,
    diagnosed: Sequence[DiagnosedMistake],
) -> list[PropertyRecord]:
    """Return the same records, some with evidence. The harness needs a process that still answers.

    A submission that exhausted its time or memory is not called again. Nothing can be shown for a
    module whose weights differ from those that it was given.
    """
    lacking = any(v.property is every_weight_arrives and v.violation is not None for v in verdicts)
    if lacking or any(v.status in UNDIAGNOSABLE for v in verdicts):
        return list(records)
    with harness.suppress_notes(), torch.no_grad():
        evidence = _collect_evidence(verdicts, harness, diagnosed)
    return [
        replace(record, evidence=evidence[i]) if i in evidence else record
        for i, record in enumerate(records)
    ]


def _collect_evidence(
    verdicts: Sequence[Verdict], harness: Harness, diagnosed: Sequence[DiagnosedMistake]
) -> dict[int, EvidenceRecord]:
    """Measure the evidence; return it by the index of the verdict to which it belongs."""
    evidence: dict[int, EvidenceRecord] = {}
    pipeline = next((way[0] for d in diagnosed for way in d.ways), None)
    if failure := _find_first_failure(verdicts, VALUE_GROUPS):
        index, case = failure
        drawn = pipeline if harness.contract.entry is not Entry.BUILDER else None  # sizes are given
        layouts = trace_layouts(drawn) if drawn is not None else ()
        weights = _measure_first(lambda context: measure_weights(context, pipeline), harness, case)
        if layouts or weights is not None:
            evidence[index] = EvidenceRecord(weights=weights, layouts=layouts)
    if failure := _find_first_failure(verdicts, (PropertyGroup.MASK,)):
        index, case = failure
        influence = _measure_first(measure_influence, harness, case)
        if influence is not None:
            evidence[index] = replace(evidence.get(index, EvidenceRecord()), influence=influence)
    return evidence


def list_candidates(verdicts: Sequence[Verdict]) -> list[int]:
    """Return the indices of the verdicts for which evidence is measured if possible."""
    groups = VALUE_GROUPS, (PropertyGroup.MASK,)
    found = (_find_first_failure(verdicts, each) for each in groups)
    return [failure[0] for failure in found if failure is not None]


def _find_first_failure(
    verdicts: Sequence[Verdict], groups: Sequence[PropertyGroup]
) -> tuple[int, Case] | None:
    """Find the first verdict about wrong numbers in these groups; return its index and case."""
    for i, verdict in enumerate(verdicts):
        violation, case = verdict.violation, verdict.case
        prop = verdict.property
        if violation is None or case is None or prop.group not in groups or prop.about is not None:
            continue
        if violation.kind in (ViolationKind.VALUE, ViolationKind.FINITE):
            return i, case
    return None


def _measure_first(
    measure: Callable[[LiveContext], T | None], harness: Harness, failing: Case
) -> T | None:
    """Return the measurement on the first case on which it shows something."""
    for case in choose_cases(harness.contract, failing):
        with suppress(*EVIDENCE_ERRORS):
            measured = measure(harness.create_context(case))
            if measured is not None:
                return measured
    return None


def choose_cases(contract: Contract, case: Case) -> tuple[Case, ...]:
    """Return the cases to measure: one with a readable number of tokens, then the one that failed.

    The failing case is shortened if it is long, since recovering the weights takes a call for every
    few tokens. There are no cases if the contract's modules are too large.
    """
    tokens = min(max(case.tokens, MIN_TOKENS), MAX_TOKENS)
    longest = max(case.context_length, tokens)
    sharp = max(case.sharpness, MIN_SHARPNESS)
    better = contract.fit(replace(case, tokens=tokens, context_length=longest, sharpness=sharp))
    cut = contract.fit(replace(case, tokens=min(case.tokens, MAX_MEASURED_TOKENS)))
    return tuple(c for c in dict.fromkeys((better, cut)) if max(c.d_in, c.d_out) <= MAX_WIDTH)


# ------------------------------------------------------------------------------------- weights


def measure_weights(context: LiveContext, pipeline: Pipeline | None = None) -> Weights | None:
    """Return the attention weights where they are most wrong; None if correct or out of reach.

    These are the weights that the submission returns. If those are correct, they are the weights
    that result from the diagnosed mistake or, without a diagnosis, weights recovered from outputs.
    Raises SubmissionFailed, Violation.
    """
    if (returned := _compare_returned_weights(context)) is not None:
        return returned
    if pipeline is None:
        return _compare_recovered_weights(context)
    return _compare_pipeline_weights(context, pipeline)


def _compare_returned_weights(context: LiveContext) -> Weights | None:
    visible = context.may_attend(context.case.tokens, context.mask)
    rows = zip(context.output_names, context.expected.outputs, strict=True)
    for i, (name, expected) in enumerate(rows):
        if name != "output" and context.contract.has(Capability.WEIGHTS):
            pair = (expected, context.answer[i])
            right, got = (t.unsqueeze(1) if t.dim() == 3 else t for t in pair)
            worst = _find_worst(context.case, right, got, visible)
            if worst is not None:
                return replace(worst, of=name, made="returned")
    return None


def _compare_recovered_weights(context: LiveContext) -> Weights | None:
    if not context.contract.has(*tomography.REQUIRED_CAPABILITIES):
        return None
    for case in transform_cases(context.contract, tomography.fit_for_recovery, [context.case]):
        fresh = context.harness.create_context(case)
        recovered = tomography.recover_weights(fresh)
        visible = fresh.may_attend(case.tokens, None)
        return _find_worst(case, recovered.expected[None], recovered.weights[None], visible)
    return None


def _compare_pipeline_weights(context: LiveContext, pipeline: Pipeline) -> Weights | None:
    if not context.contract.has(Capability.ATTENTION):
        return None
    visible = context.may_attend(context.case.tokens, context.mask)
    given = context.x, context.parameters, visible
    inputs = make_attention_inputs(context.contract, context.case, *given)
    evaluator = MemoisedEvaluator(inputs, CORRECT)
    right, wrong = evaluator.evaluate(CORRECT), evaluator.evaluate(pipeline)
    if right is None or wrong is None:
        return None
    worst = _find_worst(context.case, right.applied_weights, wrong.applied_weights, visible)
    return None if worst is None else replace(worst, made="followed")


def _find_worst(
    case: Case, expected: Tensor, got: Tensor, visible: Tensor | None
) -> Weights | None:
    """Return the part of the matrix, in one head and sequence, where weights are most wrong.

    None if no weight is wrong, or the shapes differ.
    """
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
    """Return as many neighbouring tokens as a figure shows, including the one at `at`."""
    start = max(0, at - MAX_TOKENS + 1)
    return tuple(range(start, min(start + MAX_TOKENS, tokens)))


# ----------------------------------------------------------------------------------- influence


def measure_influence(context: LiveContext) -> InfluenceEvidence | None:
    """Return which outputs change with each token; None if exactly the right ones do.

    It also returns None if nothing can be concluded, because repeated calls differ or outputs are
    not finite. There is one call for each token, since sequences that share a batch might influence
    each other. Raises SubmissionFailed, Violation.
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
    """Return which outputs of the submission, and of the oracle, change when a token changes.

    Raises Violation if an output is then not finite.
    """
    x = context.x.clone()
    x[:, token] = 3 - 2 * x[:, token]
    right, exact = context.expected, context.compute_expected(x)
    rounding = 512 * PRECISIONS[context.case.dtype].u * base.abs().max()
    slack = 2 * (right.tolerances[0].float32 + exact.tolerances[0].float32) + rounding
    output = context.run(x)[0]
    comparison.assert_finite(output)
    got = (output - base).abs() > slack
    expected = (exact.outputs[0] - right.outputs[0]).abs() > slack
    return got.any(-1), expected.any(-1)


def _compute_allowed_influence(context: LiveContext) -> Tensor:
    """Return the tokens on which each output of each sequence may depend, including its own."""
    b, h, t = context.case.batch, context.case.heads, context.case.tokens
    visible = context.may_attend(t, context.mask)
    may = torch.ones(t, t, dtype=torch.bool) if visible is None else visible
    return may.expand(b, h, t, t).any(1) | torch.eye(t, dtype=torch.bool)


def _to_float_matrix(matrix: Tensor) -> FloatMatrix:
    return tuple(tuple(_round_number(v) for v in row) for row in matrix.tolist())


def _round_number(value: float) -> float | None:
    """Round a number for the record; None unless it is finite, since JSON has no infinity."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if abs(value) < float("inf") else None


def _to_bool_matrix(matrix: Tensor) -> BoolMatrix:
    return tuple(tuple(row) for row in matrix.tolist())
