"""Compare the results of two implementations output by output, without any property."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from headcheck.exercises import Exercise
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.cases.case_tensors import draw_normal, make_parameters, make_tokens
from headcheck.properties.cases.fitting_mask import make_fitting_mask
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.harness.module_adapter import ModuleAdapter, construct
from headcheck.properties.subject import CallOptions, Subject
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import SubmissionFailed, Violation

RELATIVE = 2.0**-36
"""The largest difference that outputs in float64 may have, relative to the largest value. It is
larger than the difference that another order of operations causes, and far smaller than the
difference that another computation causes."""
CASES = 16
RATE = 0.5

Outcome = tuple[Tensor, ...] | None
"""the outputs of a call; None if it failed"""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The results of an implementation in a fixed series of calls."""

    outcomes: tuple[Outcome, ...]

    def equals(self, other: "Behaviour") -> bool:
        """Whether two implementations compute the same results."""
        pairs = zip(self.outcomes, other.outcomes, strict=True)
        return all(_are_close(one, another) for one, another in pairs)


def observe(namespace: Mapping[str, Any], exercise: Exercise) -> Behaviour:
    """Call a module's definition on the cases of an exercise, in evaluation and in training."""
    subject, contract = make_subject(dict(namespace)), exercise.contract
    cases = generate_case_set(contract, CASES, seed=1)
    return Behaviour(tuple(o for case in cases for o in _iter_outcomes(subject, contract, case)))


def _iter_outcomes(subject: Subject, contract: Contract, case: Case) -> Iterator[Outcome]:
    rate = RATE if contract.has(Capability.DROPOUT) else 0.0
    case = replace(case, dtype="float64", dropout=rate)
    try:
        adapter = construct(subject, contract, case, seed=1)
        adapter.set(make_parameters(case, contract))
    except (SubmissionFailed, Violation):
        yield None
        return
    for training in (False, True):
        yield _call(adapter, contract, case, CallOptions(training=training, seed=case.seed))
    apart = len([role for role in contract.call if role != "mask"])
    if contract.has(Capability.CROSS) and apart > 1:
        yield _call(adapter, contract, case, CallOptions(seed=case.seed, apart=apart))
    yield _differentiate(adapter, contract, case)


def _call(adapter: ModuleAdapter, contract: Contract, case: Case, options: CallOptions) -> Outcome:
    x, mask = make_tokens(case, contract), make_fitting_mask(contract, case)
    others = [
        draw_normal(replace(case, seed=case.seed + n), "x", *x.shape)
        for n in range(1, options.apart)
    ]
    own, *given = adapter.build_inputs(x, mask)
    others = [t if adapter.has_batch_axis else t[0] for t in others]
    try:
        return adapter.module.forward([own, *others, *given], options).outputs
    except (SubmissionFailed, Violation):
        return None


def _differentiate(adapter: ModuleAdapter, contract: Contract, case: Case) -> Outcome:
    """Return the gradients that exist."""
    x = make_tokens(case, contract)
    cotangent = draw_normal(case, "cotangent", case.batch, case.tokens, case.d_out)
    try:
        found = adapter.vjp(x, cotangent, make_fitting_mask(contract, case))
    except (SubmissionFailed, Violation):
        return None
    return tuple(found[name] for name in sorted(found) if found[name] is not None)  # type: ignore[misc]


def _are_close(one: Outcome, other: Outcome) -> bool:
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(map(_is_close, one, other))


def _is_close(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    finite = one.isfinite()
    if not torch.equal(finite, other.isfinite()):
        return False
    largest = float(one[finite].abs().max()) if bool(finite.any()) else 0.0
    return bool(((one - other)[finite].abs() <= RELATIVE * max(largest, 1.0)).all())
