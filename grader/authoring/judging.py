"""Judge a change of a solution: find the property it breaks, and compare its results.

The code is the instructor's own, as in an audit (`grader.audit.matrix`). Each answer is judged only
until it breaks a property.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headcheck.exercises import Exercise
from headcheck.exercises.answers import Answer, AnswerKind
from headcheck.grader.audit.matrix import load_subject
from headcheck.grader.batch.check import check_by_batches
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.cases.case_tensors import draw_normal, make_parameters, make_tokens
from headcheck.properties.cases.fitting_mask import make_fitting_mask
from headcheck.properties.check import find_first_failure
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.harness.harness import Harness
from headcheck.properties.harness.module_adapter import ModuleAdapter, construct
from headcheck.properties.mistakes.diagnosis import diagnose
from headcheck.properties.property import Property, Verdict
from headcheck.properties.subject import CallOptions, Subject
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, SubmissionFailed, Violation

RELATIVE = 2.0**-36
"""The largest difference that outputs in float64 may have, relative to the largest value. It is
larger than the difference that another order of operations causes, and far smaller than the
difference that another computation causes."""
CASES = 16
RATE = 0.5

Outcome = tuple[Tensor, ...] | None
"""the outputs of a call; None if it failed"""
DOES_NOT_END = "it does not end"
ENDS_ITS_PROCESS = "it ends its process"
DOES_NOT_RUN = "it cannot be loaded"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The results of an implementation in a fixed series of calls."""

    outcomes: tuple[Outcome, ...]

    def equals(self, other: "Behaviour") -> bool:
        """Whether two implementations compute the same results."""
        pairs = zip(self.outcomes, other.outcomes, strict=True)
        return all(_are_close(one, another) for one, another in pairs)


def observe(subject: Subject, exercise: Exercise) -> Behaviour:
    """Call a module's definition on the cases of an exercise, in evaluation and in training."""
    contract = exercise.contract
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


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a change of the solution."""

    answer: Answer
    caught_by: str | None = None
    """the first property that the change breaks"""
    mistake: str | None = None
    """the name of the mistake, if there is one"""
    same: bool = False
    """whether the change computes the same results as the solution on every case"""

    @property
    def is_equivalent(self) -> bool:
        """Whether nothing distinguishes it from the solution."""
        return self.same and self.caught_by is None

    @property
    def is_missed(self) -> bool:
        """Whether the change computes different results but breaks no property."""
        return not self.same and self.caught_by is None


def judge(answer: Answer, exercise: Exercise) -> Judged:
    """Judge one answer in this process; a right answer is judged only by its results."""
    try:
        same = observe(load_subject(answer), exercise).equals(_observe_solution(exercise))
    except ValueError:
        return Judged(answer, DOES_NOT_RUN)
    if not answer.is_wrong:
        return Judged(answer, same=same)
    harness = Harness(load_subject(answer), exercise.contract)
    caught = _find_broken(exercise, harness)
    if caught is not None:
        found = diagnose(Harness(load_subject(answer), exercise.contract))
        mistake = found[0].mistake.name if len(found) == 1 else None
        return Judged(answer, caught.name, mistake, same)
    if not same:  # the results may be the same with the weights named as the harness found them
        renamed = replace(exercise, contract=harness.contract)
        same = observe(load_subject(answer), renamed).equals(_observe_solution(exercise))
    return Judged(answer, same=same)


def _find_broken(exercise: Exercise, harness: Harness) -> Property | None:
    """Return the first property that an answer breaks."""

    def check(prop: Property, cases: Sequence[Case]) -> Verdict:
        return find_first_failure(prop, harness, cases)

    verdicts = check_by_batches(harness, exercise, check)
    broken = (v for v in verdicts if v.status is not Status.PASSED and not v.unsupported)
    return next((verdict.property for verdict in broken), None)


@functools.cache
def _observe_solution(exercise: Exercise) -> Behaviour:
    answer = Answer(exercise.slug, AnswerKind.SOLUTION, "solution", "", exercise.solution)
    return observe(load_subject(answer), exercise)
