"""A trial: one subject on one case, with everything that several properties need computed once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from types import EllipsisType
from typing import Any, TypeVar

import torch
from torch import Tensor

from properties import comparison
from properties.case import Case
from properties.cases import case_tensors
from properties.contract import Contract, Returns, Trait
from properties.harness import aliases
from properties.harness.module_adapter import Instance, construct
from properties.oracle import ExactGradients, Expected, expect, gradients
from properties.subject import How, Returned, Subject
from properties.tolerance import PRECISIONS, Allowed
from properties.violation import Kind, Note, SubmissionFailed, Violation
from reference import Parameters, causal, may_attend

T = TypeVar("T")

FLOAT32 = Note(
    "float32",
    "given float64, the answer is only as exact as float32: does some step compute in float32?",
)
EXCHANGED = Note(
    "exchanged_names",
    "the query and key layers have each other's names: the layer called query makes the keys. "
    "The function computed is the same; weights loaded by name would not be",
)


SHARP = Case(batch=2, tokens=4, context_length=4, d_in=5, heads=2, head_dim=3, sharpness=2, seed=1)
"""Every weight has a shape of its own here, and exchanging any two changes the answer."""


class Trial:
    """One subject on one case.

    Outputs and inputs have a batch axis throughout, whether or not the submission knows one.
    Methods raise Violation when an answer has the wrong form, SubmissionFailed when the
    submission's own code goes wrong.
    """

    def __init__(self, bench: "Bench", contract: Contract, case: Case) -> None:
        self.bench = bench
        self.contract = contract
        self.case = case
        self._once: dict[Callable[[Trial], Any], Any] = {}

    @cached_property
    def x(self) -> Tensor:
        return case_tensors.tokens_of(self.case, self.contract)

    @cached_property
    def parameters(self) -> Parameters:
        return case_tensors.parameters_of(self.case, self.contract)

    @cached_property
    def mask(self) -> Tensor | None:
        return case_tensors.mask_of(self.case)

    @cached_property
    def cotangent(self) -> Tensor:
        shape = self.expected.outputs[0].shape
        return case_tensors.rounded(case_tensors.normal(self.case, "cotangent", *shape), self.case)

    @cached_property
    def expected(self) -> Expected:
        return self.expect()

    @cached_property
    def instance(self) -> Instance:
        return construct(self.bench.subject, self.contract, self.case, seed=self.case.seed)

    @cached_property
    def answer(self) -> tuple[Tensor, ...]:
        """What the submission answers to the case itself, in evaluation mode."""
        return self.run()

    @property
    def output(self) -> Tensor:
        return self.answer[0]

    def undisturbed(self) -> None:
        """Get the answer to the case itself before anything is done that might change it."""
        self.answer  # noqa: B018  # it is kept

    @property
    def allowed(self) -> Allowed:
        """How far the output may be from the exact one."""
        return self.expected.allowed[0]

    def may_attend(self, tokens: int, mask: Tensor | None) -> Tensor | None:
        """Who may attend to whom under this contract."""
        if self.contract.has(Trait.CAUSAL):
            return causal(tokens)
        return None if mask is None else may_attend(mask)

    def expect(
        self,
        x: Tensor | None = None,
        parameters: Parameters | None = None,
        mask: Tensor | EllipsisType | None = ...,
    ) -> Expected:
        """The oracle's answer, to the case or to something near it."""
        x = self.x if x is None else x
        visible = self.may_attend(x.shape[-2], self.mask if mask is ... else mask)
        return expect(self.contract, self.case, x, parameters or self.parameters, visible)

    def returned(
        self,
        x: Tensor | None = None,
        parameters: Parameters | None = None,
        mask: Tensor | EllipsisType | None = ...,
        how: How | None = None,
        instance: Instance | None = None,
    ) -> Returned:
        """Call the submission once; the form of what comes back has been checked."""
        x = self.x if x is None else x
        instance = instance or self.instance
        instance.set(parameters or self.parameters)
        returned = instance.forward(
            x, self.mask if mask is ... else mask, how or How(memory=self.memory(x))
        )
        self.check_form(returned, x)
        return returned

    def run(
        self,
        x: Tensor | None = None,
        parameters: Parameters | None = None,
        mask: Tensor | EllipsisType | None = ...,
        how: How | None = None,
        instance: Instance | None = None,
    ) -> tuple[Tensor, ...]:
        """The outputs of one call, in float64."""
        returned = self.returned(x, parameters, mask, how, instance)
        return tuple(output.to(torch.float64) for output in returned.outputs)

    def gradients(self, cotangent: Tensor) -> dict[str, Tensor | None]:
        """The submission's gradients of sum(output * cotangent) at the case itself, by name."""
        self.instance.set(self.parameters)
        return self.instance.vjp(self.x, cotangent, self.mask)

    def exact_gradients(self, cotangent: Tensor) -> ExactGradients:
        """The equation's."""
        visible = self.may_attend(self.case.tokens, self.mask)
        return gradients(self.contract, self.case, self.x, self.parameters, visible, cotangent)

    def outputs(self, *inputs: Tensor, parameters: Parameters | None = None) -> list[Tensor]:
        """The output for each of several inputs of one length: stacked in one call if possible.

        Stacking rests on the batch's independence, which has a property of its own.
        """
        if not self.contract.has(Trait.BATCH):
            return [self.run(x, parameters)[0] for x in inputs]
        mask = self.mask
        if mask is not None and mask.dim() == 4 and mask.shape[0] > 1:
            mask = mask.repeat(len(inputs), 1, 1, 1)
        stacked = self.run(torch.cat(inputs), parameters, mask)[0]
        return list(stacked.split([x.shape[0] for x in inputs]))

    def once(self, compute: Callable[["Trial"], T]) -> T:
        """The result of a computation on this trial, made once and shared."""
        if compute not in self._once:
            self._once[compute] = compute(self)
        result: T = self._once[compute]
        return result

    def memory(self, x: Tensor) -> str:
        """The case's own memory layout, for the case's own input; others come contiguous."""
        return self.case.memory.value if x is self.x else "contiguous"

    def check_form(self, returned: Returned, x: Tensor) -> None:
        """Raises Violation unless as many tensors came back as are asked for, of their shapes."""
        shapes = self.shapes(x)
        asked = f"{self.contract.returns} ({len(shapes)} tensor{'s' * (len(shapes) > 1)}) returned"
        if len(returned.outputs) != len(shapes):
            raise Violation(Kind.TYPE, asked, returned.form)
        for output, shape, name in zip(returned.outputs, shapes, self.names, strict=True):
            comparison.same_shape(output, shape, name)

    @property
    def names(self) -> tuple[str, ...]:
        """What the outputs are called in messages."""
        return {
            Returns.OUTPUT: ("output",),
            Returns.OUTPUT_AND_WEIGHTS: ("output", "weights"),
            Returns.WEIGHTS_TWICE: ("weights_by_renormalising", "weights_by_masking"),
        }[self.contract.returns]

    def shapes(self, x: Tensor) -> tuple[tuple[int, ...], ...]:
        """The shapes that must come back for this input."""
        b, t = x.shape[:2]
        output = (b, t, self.case.d_out)
        match self.contract.returns:
            case Returns.OUTPUT:
                return (output,)
            case Returns.OUTPUT_AND_WEIGHTS:
                return (output, (b, self.case.heads, t, t))
            case Returns.WEIGHTS_TWICE:
                return ((b, t, t), (b, t, t))

    def must_equal(
        self, got: Tensor, wanted: Tensor, allowed: Allowed, what: str = "output"
    ) -> None:
        """Raises Violation unless `got` is `wanted`, as far as rounding allows."""
        if not comparison.agree(got, wanted, allowed, what):
            self.bench.note(FLOAT32)

    def must_stay(
        self, got: Tensor, before: Tensor, allowed: Allowed, what: str = "output"
    ) -> None:
        """Raises Violation unless `got` is the earlier answer of the same submission.

        Both may be off by what a right answer may be off; a wrong one obeys no bound of ours, so
        it may also be off by half a thousand roundings of its own size, and stay NaN or infinite.
        """
        comparison.same_shape(got, tuple(before.shape), what)
        lost = before.isnan() & got.isnan() | (got == before) & got.isinf()
        got, before = got.masked_fill(lost, 0.0), before.masked_fill(lost, 0.0)
        finite = before[before.isfinite()].abs()
        size = float(finite.max()) if finite.numel() else 0.0
        own = 512 * PRECISIONS[self.case.dtype].u * size
        slack = Allowed(2 * allowed.exact + own, 2 * allowed.float32 + own)
        self.must_equal(got, before, slack, what)

    def must_be_as_before(self, answer: tuple[Tensor, ...]) -> None:
        """Raises Violation unless every output is the submission's own answer to the case.

        Claims that something does not matter are about this, not about being right.
        """
        rows = zip(answer, self.answer, self.expected.allowed, self.names, strict=True)
        for got, before, allowed, name in rows:
            self.must_stay(got, before, allowed, name)

    def must_match(self, answer: tuple[Tensor, ...], expected: Expected) -> None:
        """Raises Violation unless every output is what the oracle says."""
        rows = zip(answer, expected.outputs, expected.allowed, self.names, strict=True)
        for got, wanted, allowed, name in rows:
            self.must_equal(got, wanted, allowed, name)


def _renamed(asked: Contract, other: Contract) -> Note:
    pairs = zip(asked.slots, other.slots, strict=True)
    changed = [f"`{new.path}` is `{old.path}`" for old, new in pairs if old.path != new.path]
    return Note("renamed_parameters", f"in the statement, {', '.join(changed)}")


def _missing(name: str) -> Note:
    return Note(
        "missing_argument",
        f"the constructor takes no `{name}`, which the statement names: claims about it do not "
        "hold, all others were tried without it",
    )


def _answers(trial: Trial) -> bool:
    """Whether the subject gives the exact answer."""
    try:
        trial.must_match(trial.answer, trial.expected)
    except (Violation, SubmissionFailed):
        return False
    return True


class Bench:
    """One subject under examination: its trials, remembered, and the notes made on the way."""

    def __init__(self, subject: Subject, contract: Contract) -> None:
        self.subject = subject
        self.asked = contract
        self.notes: dict[tuple[str, str], Note] = {}
        self.shown: list[Case] = []
        """small cases on which claims failed"""
        self.searched = 0
        """cases tried to find these"""
        self._trials: dict[Case, Trial] = {}

    @cached_property
    def contract(self) -> Contract:
        """The contract as this subject keeps it.

        Without arguments that it does not take, under its own names, query and key exchanged.
        """
        taken = self._with_its_arguments()
        first = Trial(self, taken, taken.fit(SHARP))
        named = self._under_its_names(first)
        other = named.exchanged()
        if named is not taken:
            first = Trial(self, named, first.case)
        if other is None or _answers(first) or not all(self._fit(other)):
            return named
        self.note(EXCHANGED)
        return other

    def _fit(self, contract: Contract) -> Iterator[bool]:
        """Whether the subject gives the exact answers under this contract."""
        for seed in (1, 2):
            yield _answers(Trial(self, contract, contract.fit(replace(SHARP, seed=seed))))

    def _with_its_arguments(self) -> Contract:
        """The contract asked for, without dispensable arguments that the constructor refuses."""
        contract = self.asked
        while (refusal := self._refusal(contract)) is not None:
            unknown = "unexpected keyword argument '{}'".format
            refused = [a for a in contract.dispensable if unknown(a.name) in refusal]
            if not refused:
                return self.asked
            contract = contract.without(refused[0])
        for argument in self.asked.arguments:
            if argument not in contract.arguments:
                self.note(_missing(argument.name))
        return contract

    def _refusal(self, contract: Contract) -> str | None:
        """What the constructor says that is given all arguments; nothing if it takes them."""
        if not contract.dispensable:
            return None
        try:
            construct(self.subject, contract, contract.fit(replace(SHARP, bias=True, dropout=0.5)))
        except SubmissionFailed as failure:
            return failure.message
        return None

    def _under_its_names(self, first: Trial) -> Contract:
        """The contract of a trial, or the same with the names that the weights really have."""
        asked, case = first.contract, first.case
        if not asked.has(Trait.PROJECTED, Trait.INITIALISED):
            return asked
        try:
            tensors = first.instance.holder.tensors()
        except SubmissionFailed:
            return asked
        if set(asked.paths(case)) <= set(tensors):
            return asked
        other = aliases.renamed(asked, case, tensors)
        if other is None:
            return asked
        self.note(_renamed(asked, other))
        return other

    def trial(self, case: Case) -> Trial:
        """The trial of this case: always the same one, so that its answers are shared."""
        if case not in self._trials:
            self._trials[case] = self.fresh(case)
        return self._trials[case]

    def trial_for(self, needs: frozenset[Trait], drawn: Case) -> Trial:
        """The trial of a case for a claim with these needs.

        Where the subject lacks an argument, the case does without it; but a claim that is about
        that argument asks for it, and hears why there is none.
        """
        if self.contract.has(*needs):
            return self.trial(self.contract.fit(drawn))
        return Trial(self, self.asked, drawn)

    def fresh(self, case: Case) -> Trial:
        """A trial that shares nothing with earlier ones."""
        return Trial(self, self.contract, case)

    def forget(self) -> None:
        """Drop every instance: the process that held them is gone."""
        self._trials.clear()

    def note(self, note: Note) -> None:
        """Remember something worth saying, once."""
        self.notes.setdefault((note.kind, note.message), note)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Forget notes made inside: they are about inputs that nobody was shown."""
        before = dict(self.notes)
        try:
            yield
        finally:
            self.notes = before
