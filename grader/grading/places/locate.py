"""Locate the mistake of a submission whose values are wrong, by a trace of one call."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headcheck.grader.grading.places.bounds import Bound, Search
from headcheck.grader.grading.places.flow import BadTrace, Flow, read_trace
from headcheck.grader.grading.places.matching import EXACT
from headcheck.grader.grading.places.stages import Stages, list_stages
from headcheck.grader.sandbox import operations
from headcheck.grader.sandbox.grader_side.subject import ChannelModule
from headcheck.grader.sandbox.wire import label_by_position
from headcheck.properties.cases.case_tensors import make_other_tokens
from headcheck.properties.contracts.contract import Capability, Contract, Entry, Returns
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.mistakes.pipeline import SHAPE_ERRORS, PipelineState, run_pipeline
from headcheck.properties.mistakes.pipeline_inputs import (
    get_correct_pipeline,
    make_attention_inputs,
)
from headcheck.properties.mistakes.samples import CASES, PADDED_CASE
from headcheck.properties.terms.case import Case, MaskForm
from headcheck.properties.violations.violation import SubmissionFailed, Violation

MAX_LINES = 12
"""a bound of more lines tells nothing"""
LAYERS = {"q": "W_q", "k": "W_k", "v": "W_v", "attended": "W_o", "hidden": "W_1", "forwarded": "W_2"}
"""the weights of the layers that give stages"""
INEXACT = 1e-5
"""how exact values are where positions count: often their angles are in float32"""
WRONG = 1e-7
"""the smallest relative difference that makes a result wrong"""


@dataclass(frozen=True, eq=False)
class Located:
    status: str
    case: Case | None = None
    bound: Bound | None = None
    flow: Flow | None = None
    stages: Stages | None = None


@dataclass(frozen=True, eq=False)
class Traced:
    """One traced call with the right values of its stages."""

    case: Case
    flow: Flow
    state: PipelineState
    wrong: tuple[int, ...]
    """the returned steps whose values are wrong"""


def locate(harness: Harness, failing: Iterable[Case]) -> Located:
    status = "no trace"
    if harness.contract.entry in (Entry.TRANSFER, Entry.BUILDER):
        return Located("transfer")
    for context, others in iter_contexts(harness, failing):
        try:
            traced = trace(context, others)
        except (SubmissionFailed, Violation, BadTrace, *SHAPE_ERRORS) as e:
            continue
        if not traced.wrong:
            status = "right"
            continue
        stages = list_stages(traced.state)
        exact = INEXACT if harness.contract.has(Capability.POSITIONS) else EXACT
        target = find_target(harness, traced, stages)
        bound = Search(traced.flow, stages, traced.wrong[:1], target, exact, list_layers(harness.contract)).bound()
        if bound is not None and not 0 < len(bound.lines) <= MAX_LINES:
            bound = None
        return Located("wrong values", traced.case, bound, traced.flow, stages)
    return Located(status)


def find_target(harness: Harness, traced: Traced, stages: Stages) -> str:
    names = harness.contract.returns
    place = traced.flow.returned.index(traced.wrong[0])
    wanted = traced.state.inputs.wanted[place] if place < len(traced.state.inputs.wanted) else ""
    if wanted == "weights" or wanted == "matrix":
        return "weights"
    if wanted == "logsumexp":
        return "logsumexp"
    return [key for key in stages if key != "logsumexp"][-1]


def list_layers(contract: Contract) -> dict[str, str]:
    """Return the paths of the weights that hold a single matrix, by the stages that they give."""
    alone = {m.holds[0]: m.path for m in contract.mappings if len(m.holds) == 1 and "{" not in m.path}
    return {key: alone[name] for key, name in LAYERS.items() if name in alone}


def iter_contexts(
    harness: Harness, failing: Iterable[Case]
) -> Iterator[tuple[LiveContext, tuple[Tensor, ...]]]:
    contract = harness.contract
    padded = [PADDED_CASE] if contract.has(Capability.PADDING) else []
    for case in dict.fromkeys(contract.fit(c) for c in (*CASES, *padded)):
        yield harness.create_context(case), ()
    if contract.has(Capability.CROSS):
        case = contract.fit(replace(CASES[0], mask_form=MaskForm.NONE))
        context = harness.create_context(case)
        yield context, make_other_tokens(case, contract, case.tokens + 3)
    for case in failing:
        yield harness.create_context(replace(case, dtype="float64")), ()


def trace(context: LiveContext, others: tuple[Tensor, ...]) -> Traced:
    adapter, contract, case = context.adapter, context.contract, context.case
    adapter.set(context.parameters)
    keys = others[0].shape[-2] if others else None
    visible = context.may_attend(case.tokens, context.mask, keys)
    given = context.x, context.parameters, visible, others
    inputs = make_attention_inputs(contract, case, *given)
    if contract.returns is Returns.WEIGHTS_TWICE:
        inputs = replace(inputs, wanted=("matrix", "matrix"))
    with torch.no_grad():
        state = run_pipeline(get_correct_pipeline(contract), inputs)
    if others:
        sent = [t if adapter.has_batch_axis else t[0] for t in (context.x, *others)]
    else:
        sent = adapter.build_inputs(context.x, context.mask)
    sent = [t.double() if t.is_floating_point() else t for t in sent]
    module = adapter.module
    assert isinstance(module, ChannelModule), "it is at the other end of a channel"
    reply, tensors = module._ask(
        operations.TRACE, label_by_position(sent), device=module.device, apart=1 + len(others)
    )
    [(_, values)] = tensors
    flow = read_trace(reply, values)
    return Traced(case, flow, state, find_wrong(flow, state))


def find_wrong(flow: Flow, state: PipelineState) -> tuple[int, ...]:
    found = []
    for number, wanted in zip(flow.returned, state.answer, strict=False):
        got = flow.values.get(number)
        if got is None or got.values.numel() != wanted.numel():
            raise BadTrace
        off = (got.values - wanted.reshape(-1)).abs()
        size = max(1e-30, float(wanted.abs().max()))
        if not bool((off <= WRONG * size).all()):
            found.append(number)
    return tuple(found)
