"""A live submission: its modules, each on one case, and its state during one grading."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from headcheck.properties import comparison
from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.counting import count
from headcheck.properties.harness import aliases
from headcheck.properties.harness.case_context import (
    CaseContext,
    Mask,
    NamedGradients,
    Outputs,
    Query,
)
from headcheck.properties.harness.module_adapter import ModuleAdapter, construct
from headcheck.properties.parts import PARTS
from headcheck.properties.parts.plain import BIASES
from headcheck.properties.subject import CallOptions, CallResult, Subject
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.peculiarity import Peculiarity
from headcheck.properties.violations.violation import (
    Note,
    Reason,
    SubmissionFailed,
    Violation,
    ViolationKind,
)
from headcheck.reference import Parameters

SWAPPED_NAMES_NOTE = Note(
    "exchanged_names",
    "queries and keys have changed places, in the names of their layers or in the product of the "
    "scores. With the weights of these two layers exchanged it computes what is asked; with those "
    "that are loaded by name it does not",
)
OTHER_FORMS = ("one", "a tuple", "a list", "a dict")
"""the first words of the forms of a result that has the wrong type or number of tensors"""
NOTHING_HINT = "what a function computes is lost unless it is returned"
RETURNED_HINT = "compare what is returned, and in which order, with the statement"
ADDITIONAL_PARAMETERS = {
    **dict.fromkeys(BIASES, Capability.BIAS),
    "W_o": Capability.OUTPUT_PROJECTION,
    "b_o": Capability.OUTPUT_BIAS,
    **{weight.name: each for part in PARTS for each in part.brings for weight in part.weights},
}
"""the capabilities that require these parameters"""
MASKED = frozenset({Capability.MASK, Capability.PADDING, Capability.TAKES_MASK})
"""the capabilities of implementations that take a mask"""
SHARP_CASE = Case(
    batch=2, tokens=4, context_length=4, d_in=5, heads=2, head_dim=3, sharpness=2, seed=1
)
"""Every weight has a shape of its own here, and exchanging any two changes the answer."""


class LiveContext(CaseContext):
    """A module of a submission on one case, for checks that need the module itself.

    Such checks use training mode, other modes of torch, or the side effects of a call. Methods
    raise SubmissionFailed if the submission's own code fails.
    """

    def __init__(self, harness: "Harness", contract: Contract, case: Case) -> None:
        super().__init__(contract, case)
        self.harness = harness

    @cached_property
    def adapter(self) -> ModuleAdapter:
        return construct(self.harness.subject, self.contract, self.case, seed=self.case.seed)

    def answer_outputs(self, query: Query) -> Outputs:
        options = CallOptions(memory=query.memory, seed=query.seed)
        result = self.call_module(query.x, query.parameters, query.mask, options)
        return Outputs(result.outputs, result.dtypes, result.devices)

    def answer_gradients(self, query: Query) -> NamedGradients:
        assert query.cotangent is not None, "a query for gradients has a cotangent"
        self.adapter.set(query.parameters)
        return self.adapter.vjp(query.x, query.cotangent, query.mask, query.output)

    def with_case(self, case: Case) -> "LiveContext":
        return self.harness.get_context(case)

    def add_note(self, note: Note) -> None:
        self.harness.add_note(note)

    def call_module(
        self,
        x: Tensor | None = None,
        parameters: Parameters | None = None,
        mask: Mask = ...,
        options: CallOptions | None = None,
        adapter: ModuleAdapter | None = None,
    ) -> CallResult:
        """Call the module, or another one, and check the form of the results."""
        x = self.x if x is None else x
        adapter = adapter or self.adapter
        adapter.set(parameters or self.parameters)
        try:
            result = adapter.forward(
                x,
                self.mask if mask is ... else mask,
                options or CallOptions(memory=self.get_memory_layout(x)),
            )
            self.check_form(result, x)
        except (Violation, SubmissionFailed) as error:
            error.known = self._find_known(x)
            raise
        return result

    def _find_known(self, x: Tensor) -> Peculiarity | None:
        """Return the known unsupported peculiarity of a call, apart from those of its case."""
        call = replace(self.case, batch=x.shape[0], tokens=x.shape[1])
        known = self.harness.unsupported
        return next((p for p in known if p.is_in(call) and not p.is_in(self.case)), None)

    def run_module(
        self,
        x: Tensor | None = None,
        parameters: Parameters | None = None,
        mask: Mask = ...,
        options: CallOptions | None = None,
        adapter: ModuleAdapter | None = None,
    ) -> tuple[Tensor, ...]:
        """Return the outputs of `call_module`, in float64."""
        result = self.call_module(x, parameters, mask, options, adapter)
        return tuple(output.to(torch.float64) for output in result.outputs)

    def check_form(self, result: CallResult, x: Tensor) -> None:
        """Raise Violation unless the right number of tensors was returned, in the right shapes."""
        shapes = self.compute_output_shapes(x)
        asked = f"{self.contract.returns} ({count(len(shapes), 'tensor')})"
        cache = self.contract.call_form.cache
        kept = f", then the {cache.argument}," if cache and not cache.is_kept else ""
        if len(result.outputs) != len(shapes):
            hint = NOTHING_HINT if result.form.startswith("None") else RETURNED_HINT
            reason = _classify_form(result.form)
            expected = f"{asked}{kept} returned"
            raise Violation(ViolationKind.TYPE, expected, result.form, hint=hint, reason=reason)
        for output, shape, name in zip(result.outputs, shapes, self.output_names, strict=True):
            comparison.assert_shape(output, shape, name)

    def check_continued_form(self, result: CallResult, x: Tensor) -> None:
        """Raise Violation unless a call with a cache returned the output in its shape.

        If such calls also return weights, these are not looked at.
        """
        cache = self.contract.call_form.cache
        if cache is None or not cache.beside_weights:
            self.check_form(result, x)
        else:
            shape = self.compute_output_shapes(x)[0]
            comparison.assert_shape(result.outputs[0], shape, self.output_names[0])

    def compute_output_shapes(self, x: Tensor) -> tuple[tuple[int, ...], ...]:
        """Return the required shapes of the results for this input."""
        b, t = x.shape[:2]
        output = (b, t, self.case.d_out)
        match self.contract.returns:
            case Returns.OUTPUT:
                return (output,)
            case Returns.OUTPUT_AND_WEIGHTS:
                return (output, (b, self.case.heads, t, t))
            case Returns.OUTPUT_AND_LOGSUMEXP:
                return (output, (b, self.case.heads, t))
            case Returns.WEIGHTS_TWICE:
                return ((b, t, t), (b, t, t))


def _make_renamed_note(asked: Contract, other: Contract) -> Note:
    pairs = zip(asked.mappings, other.mappings, strict=True)
    changed = [f"`{new.path}` is `{old.path}`" for old, new in pairs if old.path != new.path]
    return Note("renamed_parameters", f"in the statement, {', '.join(changed)}")


def _make_missing_note(name: str) -> Note:
    return Note(
        "missing_argument",
        f"the constructor takes no `{name}`, which the statement names: checks of it fail, "
        "all others were tried without it",
    )


def _is_exact(context: CaseContext) -> bool:
    """Return whether the implementation gives the exact answer."""
    try:
        context.assert_matches_oracle(context.answer, context.expected)
    except (Violation, SubmissionFailed):
        return False
    return True


class CallClock(Protocol):
    """Knows what the calls of a submission cost, in seconds of its own time."""

    @property
    def used_s(self) -> float:
        """The seconds that its calls have used so far."""

    @property
    def call_s(self) -> float:
        """The seconds that one call may take."""


@dataclass(frozen=True)
class Untimed:
    """The clock of trusted code, whose calls may take any time."""

    used_s: float = 0.0
    call_s: float = math.inf


class Harness:
    """One submission under check: its contract, its cached contexts of cases, and its notes."""

    def __init__(
        self, subject: Subject, contract: Contract, clock: CallClock | None = None
    ) -> None:
        self.subject = subject
        self.clock = clock or Untimed()
        self.requested_contract = contract
        self.notes: dict[tuple[str, str], Note] = {}
        self.unsupported: dict[Peculiarity, Any] = {}
        """unsupported features, each with the property that showed it"""
        self._contexts: dict[Case, LiveContext] = {}

    @cached_property
    def contract(self) -> Contract:
        """The contract in the form that this submission satisfies.

        Dispensable arguments that its constructor does not take are removed, parameters have the
        submission's own names, and query and key are swapped if their layers are swapped.
        """
        taken = self._drop_refused_arguments()
        first = LiveContext(self, taken, taken.fit(SHARP_CASE))
        named = self._resolve_names(first)
        other = named.swap_query_and_key()
        if named is not taken:
            first = LiveContext(self, named, first.case)
        if other is None or _is_exact(first):
            return named
        sharp = (other.fit(replace(SHARP_CASE, seed=seed)) for seed in (1, 2))
        if not all(_is_exact(LiveContext(self, other, case)) for case in sharp):
            return named
        self.add_note(SWAPPED_NAMES_NOTE)
        return other

    @property
    def lacking(self) -> frozenset[Capability]:
        """The capabilities for which this submission's constructor has no argument."""
        return self.requested_contract.capabilities - self.contract.capabilities

    def _drop_refused_arguments(self) -> Contract:
        """Return the requested contract without dispensable arguments that are refused."""
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
        """Return the constructor's error if it gets all arguments; None if it accepts them."""
        if not contract.dispensable:
            return None
        try:
            construct(
                self.subject, contract, contract.fit(replace(SHARP_CASE, bias=True, dropout=0.5))
            )
        except SubmissionFailed as failure:
            return failure.message
        return None

    def _resolve_names(self, first: LiveContext) -> Contract:
        """Return the context's contract with the actual names of the weights."""
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

    def share_contract(self, subject: Subject) -> "Harness":
        """Return a harness of another subject with the same contract."""
        other = Harness(subject, self.requested_contract)
        other.contract = self.contract
        return other

    def get_context(self, case: Case) -> LiveContext:
        """Return the context of this case: always the same object, so that answers are shared."""
        if case not in self._contexts:
            self._contexts[case] = self.create_context(case)
        return self._contexts[case]

    def get_context_for(self, needs: frozenset[Capability], drawn: Case) -> LiveContext:
        """Return the context of a case for a property with these needs.

        If the submission's constructor lacks an argument, the case does not use it. A property
        about that argument still passes it, and fails with the constructor's error.
        """
        if self.contract.has(*needs):
            return self.get_context(self.contract.fit(drawn))
        return LiveContext(self, self._ask_all_the_same(needs), drawn)

    def _ask_all_the_same(self, needs: frozenset[Capability]) -> Contract:
        """Return the contract for a check of something that the submission lacks.

        This is the requested contract, or the submission's own if it is judged in its own terms.
        """
        own, asked = self.contract, self.requested_contract
        if set(own.arguments) <= set(asked.arguments) and own.call_form == asked.call_form:
            return asked
        lacks_mask = bool(MASKED & needs) and "mask" not in own.call_form.inputs
        inputs = (*own.call_form.inputs, *(("mask",) if lacks_mask else ()))
        # What returns too much fails in the terms of the statement; too little, where it is needed.
        about_results = Capability.WEIGHTS in needs or not asked.has(Capability.WEIGHTS)
        places = None if about_results else own.call_form.places
        needed = {name for name, capability in ADDITIONAL_PARAMETERS.items() if capability in needs}
        lacking = {name for name in needed if not own.stores(name)}
        missing = (m for m in asked.mappings if lacking.intersection(m.holds))
        return replace(
            own,
            mappings=(*own.mappings, *missing),
            returns=asked.returns if about_results else own.returns,
            call_form=replace(own.call_form, inputs=inputs, places=places),
            capabilities=own.capabilities | needs,
        )

    def create_context(self, case: Case) -> LiveContext:
        """Return a context that shares nothing with earlier ones."""
        return LiveContext(self, self.contract, case)

    def has_answered(self, case: Case) -> bool:
        """Return whether the plain call on a case is known to give an answer."""
        known = self._contexts.get(self.contract.fit(case))
        return known is not None and known.is_answered

    def forget(self) -> None:
        """Drop all contexts, because the process that held their modules is gone."""
        self._contexts.clear()

    def add_note(self, note: Note) -> None:
        """Keep a note; equal notes are kept once."""
        self.notes.setdefault((note.kind, note.message), note)

    @contextmanager
    def suppress_notes(self) -> Iterator[None]:
        """Drop notes that are added inside: they are about inputs that the student does not see."""
        before = dict(self.notes)
        try:
            yield
        finally:
            self.notes = before


def _classify_form(form: str) -> str:
    """Return the reason for which a result of this form, as the worker describes it, is wrong."""
    if form.startswith("None"):
        return Reason.NOTHING_RETURNED
    return Reason.OTHER_RESULTS if form.startswith(OTHER_FORMS) else ""
