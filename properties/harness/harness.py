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
from properties.contract import Capability, Contract, Returns
from properties.harness import aliases
from properties.harness.module_adapter import ModuleAdapter, construct
from properties.oracle import ExactGradients, Expected, compute_expected, compute_gradients
from properties.subject import CallOptions, CallResult, Subject
from properties.tolerance import PRECISIONS, Tolerance
from properties.violation import Note, SubmissionFailed, Violation, ViolationKind
from reference import Parameters, causal_mask, to_bool_mask

T = TypeVar("T")

FLOAT32_NOTE = Note(
    "float32",
    "given float64, the answer is only as exact as float32: does some step compute in float32?",
)
SWAPPED_NAMES_NOTE = Note(
    "exchanged_names",
    "the query and key layers have each other's names: the layer called query makes the keys. "
    "The function computed is the same; weights loaded by name would not be",
)


SHARP_CASE = Case(
    batch=2, tokens=4, context_length=4, d_in=5, heads=2, head_dim=3, sharpness=2, seed=1
)
"""Every weight has a shape of its own here, and exchanging any two changes the answer."""


class CaseContext:
    """One subject on one case.

    Outputs and inputs have a batch axis throughout, whether or not the submission knows one.
    Methods raise Violation when an answer has the wrong form, SubmissionFailed when the
    submission's own code goes wrong.
    """

    def __init__(self, harness: "Harness", contract: Contract, case: Case) -> None:
        self.harness = harness
        self.contract = contract
        self.case = case
        self._memo: dict[Callable[[CaseContext], Any], Any] = {}

    @cached_property
    def x(self) -> Tensor:
        return case_tensors.make_tokens(self.case, self.contract)

    @cached_property
    def parameters(self) -> Parameters:
        return case_tensors.make_parameters(self.case, self.contract)

    @cached_property
    def mask(self) -> Tensor | None:
        return case_tensors.make_mask(self.case)

    @cached_property
    def cotangent(self) -> Tensor:
        shape = self.expected.outputs[0].shape
        return case_tensors.round_to_dtype(
            case_tensors.draw_normal(self.case, "cotangent", *shape), self.case
        )

    @cached_property
    def expected(self) -> Expected:
        return self.compute_expected()

    @cached_property
    def adapter(self) -> ModuleAdapter:
        return construct(self.harness.subject, self.contract, self.case, seed=self.case.seed)

    @cached_property
    def answer(self) -> tuple[Tensor, ...]:
        """What the submission answers to the case itself, in evaluation mode."""
        return self.run()

    @property
    def output(self) -> Tensor:
        return self.answer[0]

    def ensure_answered(self) -> None:
        """Get the answer to the case itself before anything is done that might change it."""
        self.answer  # noqa: B018  # it is kept

    @property
    def tolerance(self) -> Tolerance:
        """How far the output may be from the exact one."""
        return self.expected.tolerances[0]

    def may_attend(self, tokens: int, mask: Tensor | None) -> Tensor | None:
        """Who may attend to whom under this contract."""
        if self.contract.has(Capability.CAUSAL):
            return causal_mask(tokens)
        return None if mask is None else to_bool_mask(mask)

    def compute_expected(
        self,
        x: Tensor | None = None,
        parameters: Parameters | None = None,
        mask: Tensor | EllipsisType | None = ...,
    ) -> Expected:
        """The oracle's answer, to the case or to something near it."""
        x = self.x if x is None else x
        visible = self.may_attend(x.shape[-2], self.mask if mask is ... else mask)
        return compute_expected(self.contract, self.case, x, parameters or self.parameters, visible)

    def call_module(
        self,
        x: Tensor | None = None,
        parameters: Parameters | None = None,
        mask: Tensor | EllipsisType | None = ...,
        options: CallOptions | None = None,
        adapter: ModuleAdapter | None = None,
    ) -> CallResult:
        """Call the submission once; the form of what comes back has been checked."""
        x = self.x if x is None else x
        adapter = adapter or self.adapter
        adapter.set(parameters or self.parameters)
        returned = adapter.forward(
            x,
            self.mask if mask is ... else mask,
            options or CallOptions(memory=self.get_memory_layout(x)),
        )
        self.check_form(returned, x)
        return returned

    def run(
        self,
        x: Tensor | None = None,
        parameters: Parameters | None = None,
        mask: Tensor | EllipsisType | None = ...,
        options: CallOptions | None = None,
        adapter: ModuleAdapter | None = None,
    ) -> tuple[Tensor, ...]:
        """The outputs of one call, in float64."""
        returned = self.call_module(x, parameters, mask, options, adapter)
        return tuple(output.to(torch.float64) for output in returned.outputs)

    def compute_gradients(self, cotangent: Tensor) -> dict[str, Tensor | None]:
        """The submission's gradients of sum(output * cotangent) at the case itself, by name."""
        self.adapter.set(self.parameters)
        return self.adapter.vjp(self.x, cotangent, self.mask)

    def compute_exact_gradients(self, cotangent: Tensor) -> ExactGradients:
        """The equation's."""
        visible = self.may_attend(self.case.tokens, self.mask)
        return compute_gradients(
            self.contract, self.case, self.x, self.parameters, visible, cotangent
        )

    def run_stacked(self, *inputs: Tensor, parameters: Parameters | None = None) -> list[Tensor]:
        """The output for each of several inputs of one length: stacked in one call if possible.

        Stacking rests on the batch's independence, which has a property of its own.
        """
        if not self.contract.has(Capability.BATCH):
            return [self.run(x, parameters)[0] for x in inputs]
        mask = self.mask
        if mask is not None and mask.dim() == 4 and mask.shape[0] > 1:
            mask = mask.repeat(len(inputs), 1, 1, 1)
        stacked = self.run(torch.cat(inputs), parameters, mask)[0]
        return list(stacked.split([x.shape[0] for x in inputs]))

    def compute_once(self, compute: Callable[["CaseContext"], T]) -> T:
        """The result of a computation on this trial, made once and shared."""
        if compute not in self._memo:
            self._memo[compute] = compute(self)
        result: T = self._memo[compute]
        return result

    def get_memory_layout(self, x: Tensor) -> str:
        """The case's own memory layout, for the case's own input; others come contiguous."""
        return self.case.memory.value if x is self.x else "contiguous"

    def check_form(self, returned: CallResult, x: Tensor) -> None:
        """Raises Violation unless as many tensors came back as are asked for, of their shapes."""
        shapes = self.compute_output_shapes(x)
        asked = f"{self.contract.returns} ({len(shapes)} tensor{'s' * (len(shapes) > 1)}) returned"
        if len(returned.outputs) != len(shapes):
            raise Violation(ViolationKind.TYPE, asked, returned.form)
        for output, shape, name in zip(returned.outputs, shapes, self.output_names, strict=True):
            comparison.assert_shape(output, shape, name)

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the outputs are called in messages."""
        return {
            Returns.OUTPUT: ("output",),
            Returns.OUTPUT_AND_WEIGHTS: ("output", "weights"),
            Returns.WEIGHTS_TWICE: ("weights_by_renormalising", "weights_by_masking"),
        }[self.contract.returns]

    def compute_output_shapes(self, x: Tensor) -> tuple[tuple[int, ...], ...]:
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

    def assert_close(
        self, got: Tensor, wanted: Tensor, tolerance: Tolerance, what: str = "output"
    ) -> None:
        """Raises Violation unless `got` is `wanted`, as far as rounding allows."""
        if not comparison.check_close(got, wanted, tolerance, what):
            self.harness.add_note(FLOAT32_NOTE)

    def assert_unchanged(
        self, got: Tensor, before: Tensor, tolerance: Tolerance, what: str = "output"
    ) -> None:
        """Raises Violation unless `got` is the earlier answer of the same submission.

        Both may be off by what a right answer may be off; a wrong one obeys no bound of ours, so
        it may also be off by half a thousand roundings of its own size, and stay NaN or infinite.
        """
        comparison.assert_shape(got, tuple(before.shape), what)
        lost = before.isnan() & got.isnan() | (got == before) & got.isinf()
        got, before = got.masked_fill(lost, 0.0), before.masked_fill(lost, 0.0)
        finite = before[before.isfinite()].abs()
        size = float(finite.max()) if finite.numel() else 0.0
        own = 512 * PRECISIONS[self.case.dtype].u * size
        slack = Tolerance(2 * tolerance.exact + own, 2 * tolerance.float32 + own)
        self.assert_close(got, before, slack, what)

    def assert_answer_unchanged(self, answer: tuple[Tensor, ...]) -> None:
        """Raises Violation unless every output is the submission's own answer to the case.

        Claims that something does not matter are about this, not about being right.
        """
        rows = zip(answer, self.answer, self.expected.tolerances, self.output_names, strict=True)
        for got, before, tolerance, name in rows:
            self.assert_unchanged(got, before, tolerance, name)

    def assert_matches_oracle(self, answer: tuple[Tensor, ...], expected: Expected) -> None:
        """Raises Violation unless every output is what the oracle says."""
        rows = zip(answer, expected.outputs, expected.tolerances, self.output_names, strict=True)
        for got, wanted, tolerance, name in rows:
            self.assert_close(got, wanted, tolerance, name)


def _make_renamed_note(asked: Contract, other: Contract) -> Note:
    pairs = zip(asked.mappings, other.mappings, strict=True)
    changed = [f"`{new.path}` is `{old.path}`" for old, new in pairs if old.path != new.path]
    return Note("renamed_parameters", f"in the statement, {', '.join(changed)}")


def _make_missing_note(name: str) -> Note:
    return Note(
        "missing_argument",
        f"the constructor takes no `{name}`, which the statement names: claims about it do not "
        "hold, all others were tried without it",
    )


def _is_exact(context: CaseContext) -> bool:
    """Whether the subject gives the exact answer."""
    try:
        context.assert_matches_oracle(context.answer, context.expected)
    except (Violation, SubmissionFailed):
        return False
    return True


class Harness:
    """One subject under examination: its trials, remembered, and the notes made on the way."""

    def __init__(self, subject: Subject, contract: Contract) -> None:
        self.subject = subject
        self.requested_contract = contract
        self.notes: dict[tuple[str, str], Note] = {}
        self.counterexamples: list[Case] = []
        """small cases on which claims failed"""
        self.search_count = 0
        """cases tried to find these"""
        self._contexts: dict[Case, CaseContext] = {}

    @cached_property
    def contract(self) -> Contract:
        """The contract as this subject keeps it.

        Without arguments that it does not take, under its own names, query and key exchanged.
        """
        taken = self._drop_refused_arguments()
        first = CaseContext(self, taken, taken.fit(SHARP_CASE))
        named = self._resolve_names(first)
        other = named.swap_query_and_key()
        if named is not taken:
            first = CaseContext(self, named, first.case)
        if other is None or _is_exact(first) or not all(self._iter_exactness(other)):
            return named
        self.add_note(SWAPPED_NAMES_NOTE)
        return other

    def _iter_exactness(self, contract: Contract) -> Iterator[bool]:
        """Whether the subject gives the exact answers under this contract."""
        for seed in (1, 2):
            yield _is_exact(
                CaseContext(self, contract, contract.fit(replace(SHARP_CASE, seed=seed)))
            )

    def _drop_refused_arguments(self) -> Contract:
        """The contract asked for, without dispensable arguments that the constructor refuses."""
        contract = self.requested_contract
        while (refusal := self._get_refusal(contract)) is not None:
            unknown = "unexpected keyword argument '{}'".format
            refused = [a for a in contract.dispensable if unknown(a.name) in refusal]
            if not refused:
                return self.requested_contract
            contract = contract.drop_argument(refused[0])
        for argument in self.requested_contract.arguments:
            if argument not in contract.arguments:
                self.add_note(_make_missing_note(argument.name))
        return contract

    def _get_refusal(self, contract: Contract) -> str | None:
        """What the constructor says that is given all arguments; nothing if it takes them."""
        if not contract.dispensable:
            return None
        try:
            construct(
                self.subject, contract, contract.fit(replace(SHARP_CASE, bias=True, dropout=0.5))
            )
        except SubmissionFailed as failure:
            return failure.message
        return None

    def _resolve_names(self, first: CaseContext) -> Contract:
        """The contract of a trial, or the same with the names that the weights really have."""
        asked, case = first.contract, first.case
        if not asked.has(Capability.PROJECTED, Capability.INITIALISED):
            return asked
        try:
            tensors = first.adapter.holder.describe_tensors()
        except SubmissionFailed:
            return asked
        if set(asked.get_parameter_shapes(case)) <= set(tensors):
            return asked
        other = aliases.resolve_aliases(asked, case, tensors)
        if other is None:
            return asked
        self.add_note(_make_renamed_note(asked, other))
        return other

    def get_context(self, case: Case) -> CaseContext:
        """The trial of this case: always the same one, so that its answers are shared."""
        if case not in self._contexts:
            self._contexts[case] = self.create_context(case)
        return self._contexts[case]

    def get_context_for(self, needs: frozenset[Capability], drawn: Case) -> CaseContext:
        """The trial of a case for a claim with these needs.

        Where the subject lacks an argument, the case does without it; but a claim that is about
        that argument asks for it, and hears why there is none.
        """
        if self.contract.has(*needs):
            return self.get_context(self.contract.fit(drawn))
        return CaseContext(self, self.requested_contract, drawn)

    def create_context(self, case: Case) -> CaseContext:
        """A trial that shares nothing with earlier ones."""
        return CaseContext(self, self.contract, case)

    def forget(self) -> None:
        """Drop every instance: the process that held them is gone."""
        self._contexts.clear()

    def add_note(self, note: Note) -> None:
        """Remember something worth saying, once."""
        self.notes.setdefault((note.kind, note.message), note)

    @contextmanager
    def suppress_notes(self) -> Iterator[None]:
        """Forget notes made inside: they are about inputs that nobody was shown."""
        before = dict(self.notes)
        try:
            yield
        finally:
            self.notes = before
