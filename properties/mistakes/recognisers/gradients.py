"""Recognise a mistake with right outputs that cuts the graph of the gradients.

The gradients of a few cases are compared with those of every mistake of
`properties.mistakes.catalogue.gradients`. A mistake is named only if it explains the gradients of
the input and of every weight, for each result, up to rounding. A missing gradient counts as zero.

A function of queries, keys and values gets different tokens for each of these, and their gradients
are compared separately.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headcheck.properties.bounds.gradients import ROLES
from headcheck.properties.bounds.precision import PRECISIONS
from headcheck.properties.cases.case_tensors import make_other_tokens
from headcheck.properties.contracts.contract import Capability, Returns
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.mistakes.catalogue.backward import BACKWARD
from headcheck.properties.mistakes.catalogue.gradients import GRADIENTS
from headcheck.properties.mistakes.evaluation import get_correct_pipeline, make_attention_inputs
from headcheck.properties.mistakes.pipeline import (
    SHAPE_ERRORS,
    AttentionInputs,
    Pipeline,
    run_pipeline,
)
from headcheck.properties.mistakes.recognisers.answers import Answers
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, SubmissionFailed
from headcheck.reference import Parameters

CASES = (
    Case(batch=2, tokens=5, context_length=6, d_in=7, heads=3, head_dim=4, bias=True, seed=2021),
    Case(batch=1, tokens=6, context_length=6, d_in=4, heads=2, head_dim=3, seed=2022),
    Case(batch=3, tokens=4, context_length=5, d_in=3, head_dim=3, bias=True, seed=2023),
)
"""Cases with several tokens, since the weight of a single token is one whatever its query and key
are.
"""
LONGER = (0, 3, 0)
"""for each of these cases, how many more keys than queries a function gets"""

Gradients = Mapping[str, Tensor | None]


OF_WEIGHTS = "the_gradients_of_the_weights_are_right"
"""the property that is waived for a class which is for inference only"""


@dataclass(frozen=True, eq=False)
class GradientSample:
    """The gradients of sum(result * cotangent) for one result of one case."""

    inputs: AttentionInputs
    base: Pipeline
    result: int
    cotangent: Tensor
    own: Gradients
    """the submission's gradients, by canonical names"""

    def is_explained_by(self, pipeline: Pipeline) -> bool:
        """Whether a pipeline has these gradients, up to rounding."""
        try:
            right, other = self._compute(self.base), self._compute(pipeline)
        except SHAPE_ERRORS:
            return False
        largest = max(float(t.abs().max()) for t in right.values() if t.numel())
        tolerance = 2**14 * PRECISIONS["float64"].u * largest
        return all(_is_close(self.own.get(name), t, tolerance) for name, t in other.items())

    def _make_leaves(self) -> tuple[dict[str, Tensor], AttentionInputs]:
        """Return the tensors with gradients by name, and inputs that are made of them."""
        if self.inputs.others:
            query, key, value = made = [_copy(t) for t in self.inputs.sources]
            apart = replace(self.inputs, x=query, others=(key, value))
            return dict(zip(ROLES, made, strict=True)), apart
        held = {"x": self.inputs.x, **dict(self.inputs.parameters.items())}
        leaves = {name: _copy(t) for name, t in held.items()}
        parameters = Parameters(**{name: leaf for name, leaf in leaves.items() if name != "x"})
        return leaves, replace(self.inputs, x=leaves["x"], parameters=parameters)

    def _compute(self, pipeline: Pipeline) -> dict[str, Tensor]:
        leaves, inputs = self._make_leaves()
        with torch.enable_grad():
            result = run_pipeline(pipeline, inputs).answer[self.result]
            if not result.requires_grad:
                return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
            total = (result * self.cotangent).sum()
            found = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
        return dict(zip(leaves, found, strict=True))


def _copy(t: Tensor) -> Tensor:
    return t.detach().clone().requires_grad_()


def _is_close(own: Tensor | None, other: Tensor, tolerance: float) -> bool:
    """Whether two gradients agree; the gradient of a weight in parts is None if a part's is.

    So a missing gradient counts as wrong only if no row of the other gradient is zero.
    """
    if own is None:
        return bool((other.reshape(len(other), -1) == 0).all(1).any())
    return bool(((own.to(torch.float64) - other).abs() <= tolerance).all())


def recognise_gradients(answers: Answers) -> tuple[DiagnosedMistake, ...]:
    """Name the mistake that explains all gradients of a submission whose outputs are right."""
    contract = answers.contract
    apart = contract.returns is Returns.WEIGHTS_TWICE
    if apart or not contract.has(Capability.TOKENS) or not answers.are_right:
        return ()
    if OF_WEIGHTS in contract.waived:
        return ()  # the class promises no gradients
    samples = [*_iter_samples(answers)]
    base = get_correct_pipeline(contract)
    if not samples or all(sample.is_explained_by(base) for sample in samples):
        return ()
    possible = (each for each in (*GRADIENTS, *BACKWARD) if each.applies_to(contract))
    for mistake, overrides in ((each, way) for each in possible for way in each.variants):
        pipeline = base.override(overrides)
        if all(sample.is_explained_by(pipeline) for sample in samples):
            tried = len(samples)
            return (DiagnosedMistake(mistake, tried, tried, ways=((pipeline,),)),)
    return ()


def _iter_samples(answers: Answers) -> Iterator[GradientSample]:
    harness, contract = answers.harness, answers.contract
    fitted = [contract.fit(replace(case, device=answers.device)) for case in CASES]
    if not contract.has(Capability.ROLES, Capability.CROSS):
        for case in dict.fromkeys(fitted):
            yield from _collect_samples(harness.create_context(case))
        return
    for causal in (False, True)[: 1 + contract.has(Capability.CAUSAL_OPTION)]:
        for case, longer in zip(fitted, LONGER, strict=True):
            others = make_other_tokens(case, contract, case.tokens + longer)
            yield from _collect_samples(
                harness.create_context(replace(case, causal=causal)), others
            )


def _collect_samples(
    context: LiveContext, others: tuple[Tensor, ...] = ()
) -> Iterator[GradientSample]:
    """Yield the gradients of each result. If queries are not the other tokens, a crash ends them.

    If there are as many queries as keys, code that forgets a transpose runs without an error.
    """
    case, contract = context.case, context.contract
    keys, mask = (others[0].shape[-2], None) if others else (None, context.mask)
    visible = context.may_attend(case.tokens, mask, keys)
    inputs = make_attention_inputs(contract, case, context.x, context.parameters, visible, others)
    base = get_correct_pipeline(contract)
    context.adapter.set(context.parameters)
    for result, tensor in enumerate(run_pipeline(base, inputs).answer):
        generator = torch.Generator().manual_seed(case.seed + result)
        cotangent = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        try:
            own = _ask(context, inputs, cotangent, result)
        except SubmissionFailed as failure:
            if others and failure.status is Status.CRASHED:
                return
            raise
        yield GradientSample(inputs, base, result, cotangent, own)


def _ask(
    context: LiveContext, inputs: AttentionInputs, cotangent: Tensor, result: int
) -> Gradients:
    """Return the submission's gradients, of different tokens apart. Raises SubmissionFailed."""
    if not inputs.others:
        return context.adapter.vjp(context.x, cotangent, context.mask, result)
    found = context.adapter.vjp_apart(inputs.sources, cotangent, output=result)
    return dict(zip(ROLES, found, strict=True))
