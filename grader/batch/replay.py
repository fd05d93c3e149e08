"""What a submission has answered already is not asked again.

Theory
------
The questions of a rehearsal (`grader/batch/recording.py`) are put to a submission before it is
judged. Where answers are not the exact ones, a claim may hold all the same: what forgets to scale
still hides the future. To see that, its judge only needs the answers, and they are here. So it
judges a recollection of the submission, which knows them, and if the claim holds on every case,
that is the verdict. Nothing else is concluded: where the claim breaks, or its judge asks for more,
the submission itself is judged, and what is said of a mistake was seen on a live call.

An answer that shared its batch with others stands for itself only if sequences are attended alone.
Claims about the batch come first, therefore, on answers that shared with nothing.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

from torch import Tensor

from grader.batch.recording import NoSubject, NotRecordable, PredictedContext, QueryId
from properties.case import Case
from properties.cases.case_tensors import DTYPES
from properties.contract import Capability, Contract
from properties.harness.harness import CaseContext, Harness
from properties.harness.module_adapter import name_gradients
from properties.property import Property
from properties.subject import CallOptions
from properties.violation import Note, Violation
from reference import Parameters

AnswerLookup = Callable[[QueryId], tuple[Tensor, ...] | None]
"""The outputs that a submission gave to a question; None if it gave none."""


class ReplayHarness(Harness):
    """A submission as it is remembered from its answers."""

    def __init__(self, harness: Harness, look_up_answer: AnswerLookup) -> None:
        super().__init__(NoSubject(), harness.requested_contract)
        self.original = harness
        self.look_up_answer = look_up_answer

    @cached_property
    def contract(self) -> Contract:
        return self.original.contract

    def create_context(self, case: Case) -> CaseContext:
        return ReplayedContext(self, self.contract, case)

    def add_note(self, note: Note) -> None:
        self.original.add_note(note)

    def confirms(self, prop: Property, cases: Sequence[Case]) -> bool:
        """Whether it is seen, from the answers alone, that the claim holds on all cases."""
        if not prop.applies_to(self.contract):
            return False
        try:
            for case in cases:
                prop.check(self.get_context(case))
        except (Violation, NotRecordable):
            return False
        return True


class ReplayedContext(PredictedContext):
    """A trial whose answers are those that were given."""

    harness: ReplayHarness

    def answer_query(
        self,
        key: QueryId,
        x: Tensor,
        parameters: Parameters,
        mask: Tensor | None,
        options: CallOptions,
    ) -> tuple[Tensor, ...]:
        outputs = self.harness.look_up_answer(key)
        if outputs is None:
            raise NotRecordable
        batched = self.contract.has(Capability.BATCH)
        dtype = DTYPES[self.case.dtype]
        return tuple((o if batched else o.unsqueeze(0)).to(dtype) for o in outputs)

    def compute_gradients(self, cotangent: Tensor) -> dict[str, Tensor | None]:
        found = self.harness.look_up_answer(self._make_gradient_id(cotangent))
        if found is None:
            raise NotRecordable
        answering = self.contract.callee
        x, *stored = (gradient.to(DTYPES[self.case.dtype]) for gradient in found)
        return name_gradients(
            answering,
            self.case,
            x if self.contract.has(Capability.BATCH) else x.unsqueeze(0),
            dict(zip(answering.get_parameter_shapes(self.case), stored, strict=True)),
        )
