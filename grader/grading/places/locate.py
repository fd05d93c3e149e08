"""Locate the mistake of a submission whose values are wrong, by the trace of one call.

The case is one on which mistakes differ, or else one that failed, in float64. A place affects no
verdict. If values are right on these cases, something else is wrong, and no place is known.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headcheck.grader.grading.places.bounds import Bounder
from headcheck.grader.grading.places.lines import Bound
from headcheck.grader.grading.places.matching import EXACT, LEAST
from headcheck.grader.grading.places.stages import Stages, list_continued_stages, list_stages
from headcheck.grader.grading.tracing.calls import ERRORS, trace_call
from headcheck.grader.grading.tracing.graph import BadTrace, Flow
from headcheck.properties.cases.case_tensors import make_other_tokens
from headcheck.properties.contracts.contract import Capability, Entry, Returns
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.mistakes.evaluation import get_correct_pipeline, make_attention_inputs
from headcheck.properties.mistakes.pipeline import PipelineState, run_pipeline
from headcheck.properties.mistakes.samples import CASES, PADDED_CASE, set_present_parameters
from headcheck.properties.terms.case import Case, InputContent, MaskForm

FIRST_CASE = replace(CASES[0], head_dim=8, rope_dim=4)
"""the case that is traced first: no two of its sizes are equal, nor is a root of one a number"""
MAX_LINES = 12
"""a bound of more lines tells nothing"""
NEW = 2
"""how many tokens a call has that continues a sequence"""
MAX_FAILING = 4
"""how many failing cases are traced if values are right on all others"""
MAX_NUMBERS = 1 << 14
"""failing cases of more scores are not traced"""
WRONG = 1e-7
"""the smallest relative difference that makes a result wrong"""
INEXACT = 1e-5
"""how exact values are where positions count: often their angles are in float32"""


@dataclass(frozen=True, eq=False)
class Located:
    """A mistake whose lines are bounded, with the trace and the right values."""

    case: Case
    flow: Flow
    stages: Stages
    bound: Bound | None
    continued: bool = False
    """whether the call continues a sequence, with a cache"""


@dataclass(frozen=True, eq=False)
class Traced:
    """One traced call, with the right results of all steps."""

    flow: Flow
    state: PipelineState
    wrong: int | None
    """the place of the first wrong one among the results; None if all are right"""
    lacking: frozenset[str]
    """the paths of the weights that the module should have, and has not"""


def locate(harness: Harness, failing: Sequence[Case]) -> Located | None:
    """Return the mistake on the first case on which values are wrong; None if there is none."""
    contract = harness.contract
    if contract.entry in (Entry.TRANSFER, Entry.BUILDER) or not contract.has(Capability.ATTENTION):
        return None  # what a given class computes, or what is copied into it, has no lines
    with harness.suppress_notes(), torch.no_grad():
        for context, others in _iter_contexts(harness, failing):
            with suppress(*ERRORS):
                traced = trace(context, others)
                if traced.state.inputs.block:
                    return None  # the stages are never there as a whole
                stages = {} if traced.wrong is None else list_stages(traced.state)
                # Of a few numbers, others may be equal to them by chance.
                told_apart = all(each.optional or each.numel >= LEAST for each in stages.values())
                if traced.wrong is not None and told_apart:
                    return _bound(context, traced, traced.wrong, stages)
        return _locate_continued(harness)


def _locate_continued(harness: Harness) -> Located | None:
    """Return the mistake in a call that continues a sequence; None if there is none."""
    contract = harness.contract
    if not contract.has(Capability.CACHE) or contract.has(Capability.LATENT):
        return None  # a cache of latents may hold them before or after their norm
    case = contract.fit(replace(FIRST_CASE, mask_form=MaskForm.NONE))
    context = harness.create_context(case)
    with suppress(*ERRORS):
        if case.tokens > NEW + 1:
            traced = trace_continued(context)
            stages = list_continued_stages(list_stages(traced.state), NEW)
            if traced.wrong is not None:
                return replace(_bound(context, traced, traced.wrong, stages), continued=True)
    return None


def _bound(context: LiveContext, traced: Traced, wrong: int, stages: Stages) -> Located:
    contract = context.contract
    exact = INEXACT if contract.has(Capability.POSITIONS) else EXACT
    target = _find_target(traced.state.inputs.wanted[wrong], stages)
    step = traced.flow.returned[wrong]
    paths = frozenset(path for path, _ in contract.to_stored(context.parameters, context.case))
    alone = {m.holds[0]: m.path for m in contract.mappings if len(m.holds) == 1}
    weights = {key: alone[each.weight] for key, each in stages.items() if each.weight in alone}
    given = traced.flow, stages, step, target, exact, weights, paths, traced.lacking
    bound = Bounder(*given).bound()
    if bound is not None and not 0 < len(bound.lines) <= MAX_LINES:
        bound = None
    return Located(context.case, traced.flow, stages, bound)


def _find_target(result: str, stages: Stages) -> str:
    """Return the key of the stage that a result should be."""
    if result == "logsumexp":
        return result
    if result in ("weights", "matrix"):
        return "weights"
    return [key for key in stages if key != "logsumexp"][-1]


def _iter_contexts(
    harness: Harness, failing: Sequence[Case]
) -> Iterator[tuple[LiveContext, tuple[Tensor, ...]]]:
    """Yield the cases to trace, some with other tokens for keys and values."""
    contract = harness.contract
    padded = (PADDED_CASE,) * contract.has(Capability.PADDING)
    for case in dict.fromkeys(contract.fit(each) for each in (FIRST_CASE, *CASES[1:], *padded)):
        yield harness.create_context(case), ()
    if contract.has(Capability.CROSS):
        case = contract.fit(replace(FIRST_CASE, mask_form=MaskForm.NONE))
        others = make_other_tokens(case, contract, case.tokens + 6)
        yield harness.create_context(case), tuple(others)
    # Among repeated or very large tokens, tensors are equal that otherwise are not.
    plain = [c for c in failing if c.content is InputContent.NORMAL and c.sharpness == 1]
    for case in plain[:MAX_FAILING]:
        if case.batch * case.heads * case.tokens**2 <= MAX_NUMBERS:
            yield harness.create_context(replace(case, dtype="float64", device="cpu")), ()


def trace(context: LiveContext, others: tuple[Tensor, ...] = ()) -> Traced:
    """Trace the call of a case. Raises one of ERRORS."""
    adapter = context.adapter
    lacking = set_present_parameters(adapter, context.parameters)
    given = (context.x, *others) if others else ()
    sent = [t if adapter.has_batch_axis else t[0] for t in given]
    sent = sent or adapter.build_inputs(context.x, context.mask)
    flow = trace_call(adapter.module, [_make_double(t) for t in sent], max(1, len(given)))
    state = _run_correct(context, others)
    return Traced(flow, state, _find_wrong(flow, state.answer), lacking)


def trace_continued(context: LiveContext) -> Traced:
    """Trace the call for the last tokens of a case, with a cache of the others.

    Raises one of ERRORS.
    """
    adapter = context.adapter
    lacking = set_present_parameters(adapter, context.parameters)
    x, count = adapter.build_inputs(context.x, None)[0], context.case.tokens
    chunks = [_make_double(t) for t in x.split([1, count - NEW - 1, NEW], dim=-2)]
    flow = trace_call(adapter.module, chunks[2:], before=chunks[:2])
    state = _run_correct(context, ())
    answer = state.answer[0][:, -NEW:]
    return Traced(flow, state, _find_wrong(flow, (answer,)), lacking)


def _make_double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _run_correct(context: LiveContext, others: tuple[Tensor, ...]) -> PipelineState:
    contract, case = context.contract, context.case
    keys = others[0].shape[-2] if others else None
    visible = context.may_attend(case.tokens, context.mask, keys)
    given = context.x, context.parameters, visible, others
    inputs = make_attention_inputs(contract, case, *given)
    if contract.returns is Returns.WEIGHTS_TWICE:
        inputs = replace(inputs, wanted=("matrix", "matrix"))
    return run_pipeline(get_correct_pipeline(contract), inputs)


def _find_wrong(flow: Flow, answer: Sequence[Tensor]) -> int | None:
    """Return the place of the first result whose numbers are wrong. Raises BadTrace."""
    for place, (number, wanted) in enumerate(zip(flow.returned, answer, strict=False)):
        got = flow.values.get(number)
        if got is None or got.values.numel() != wanted.numel():
            raise BadTrace
        off = (got.values - wanted.reshape(-1)).abs()
        size = max(torch.finfo(torch.float64).tiny, float(wanted.abs().max()))
        if not bool((off <= WRONG * size).all()):
            return place
    return None
