"""A matched class, and how to call it under contracts that differ slightly from its own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from headcheck.properties.binding.matching import RELATIVE
from headcheck.properties.binding.search import Match
from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.cases.case_tensors import make_parameters, make_tokens
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.contracts.variant import find_visible, get_variant
from headcheck.properties.harness.harness import Harness
from headcheck.properties.harness.module_adapter import construct
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.subject import CallOptions, Subject
from headcheck.properties.terms.call_form import CallForm
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, SubmissionFailed, Violation
from headcheck.reference import MultiHeadResult, Parameters, multi_head_attention

C = Capability


@dataclass(frozen=True, slots=True)
class Settled:
    """A contract, and findings that it does not state."""

    contract: Contract
    remarks: tuple[str, ...] = ()

    def add(self, remark: str) -> "Settled":
        return replace(self, remarks=(*self.remarks, remark))

    def claim(self, *capabilities: Capability) -> "Settled":
        claimed = self.contract.capabilities | set(capabilities)
        return replace(self, contract=replace(self.contract, capabilities=claimed))


@dataclass(frozen=True)
class Bench:
    """A matched class, and how to call it under contracts that differ slightly from its own."""

    subject: Subject
    signature: Signature
    match: Match
    settled: Settled
    sized: Case | None = None
    """the sizes of its calls, if they differ from those of the match"""

    @property
    def contract(self) -> Contract:
        return self.settled.contract

    @cached_property
    def case(self) -> Case:
        return self.contract.fit(self.sized or replace(self.match.sizes.case, dropout=0.0))

    @cached_property
    def parameters(self) -> Parameters:
        return make_parameters(self.case, self.contract)

    @cached_property
    def x(self) -> Tensor:
        return make_tokens(self.case, self.contract)

    def call(
        self,
        form: CallForm,
        *inputs: Tensor,
        apart: int = 1,
        case: Case | None = None,
        training: bool = False,
        parameters: Parameters | None = None,
        manner: str = "usual",
    ) -> tuple[Tensor, ...]:
        """Return the results for inputs in the usual form; none if the class raises."""
        options = CallOptions(training=training, seed=1, apart=apart, manner=manner)
        called = self._try_call(form, inputs, options, case or self.case, parameters)
        return called if isinstance(called, tuple) else ()

    def find_error(self, form: CallForm, *inputs: Tensor, apart: int = 1) -> str:
        """Return what the class raises for these inputs; "" if it returns."""
        options = CallOptions(seed=1, apart=apart)
        called = self._try_call(form, inputs, options, self.case)
        return called if isinstance(called, str) else ""

    def _try_call(
        self,
        form: CallForm,
        inputs: Sequence[Tensor],
        options: CallOptions,
        case: Case,
        parameters: Parameters | None = None,
    ) -> tuple[Tensor, ...] | str:
        """Return the results of a call, or the error that it raises."""
        contract = replace(self.contract, call_form=form)
        batched, apart = self.contract.has(C.BATCH), options.apart
        try:
            adapter = construct(self.subject, contract, case, seed=1)
            adapter.set(parameters or self.parameters)
            given = [t if batched else t[0] for t in inputs[:apart]]
            outputs = adapter.module.forward([*given, *inputs[apart:]], options).outputs
        except SubmissionFailed as failure:
            if failure.status is not Status.CRASHED:
                raise
            return failure.message
        return tuple(t if batched else t.unsqueeze(0) for t in outputs)

    def compute(
        self, keep: Tensor | None = None, *others: Tensor, added: Tensor | None = None
    ) -> MultiHeadResult:
        """Return the equation's result; if other tokens are given, they become keys and values."""
        keys, values = (others[0], others[-1]) if others else (None, None)
        keep = find_visible(self.contract, self.case, self.case.tokens, keep)
        return multi_head_attention(
            self.x,
            self.parameters,
            self.case.heads,
            keep,
            get_scale(self.contract, self.case),
            keys_from=keys,
            values_from=values,
            variant=get_variant(self.contract, self.case),
            added=added,
        )


def is_close(got: Sequence[Tensor], wanted: Tensor, place: int = 0) -> bool:
    """Whether one of several results equals the equation's."""
    if place >= len(got) or got[place].shape != wanted.shape:
        return False
    if not wanted.numel() or got[place].dtype.is_complex:
        return False
    error = (got[place].to(torch.float64) - wanted).abs().max()
    return bool(error <= RELATIVE * wanted.abs().max())


def is_right_at(subject: Subject, contract: Contract, case: Case) -> bool:
    """Whether the class is exact on a case, within the bound of `properties.bounds.attention`."""
    harness = Harness(subject, contract)
    harness.contract = contract
    context = harness.get_context(case)
    try:
        context.assert_matches_oracle(context.answer, context.expected)
    except (Violation, SubmissionFailed):
        return False
    return True
