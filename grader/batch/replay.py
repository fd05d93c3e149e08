"""Check properties on a submission's earlier answers, without calling it again.

The queries of a recording (`grader/batch/recording.py`) are sent to a submission before anything is
checked live. If answers are not exact, a property may still hold: an implementation that forgets to
scale the scores still hides the future. To see this, the check needs only the answers, and these
are known. So the check runs on them, and if the property holds on every case, the verdict is that
it holds. Nothing else is concluded from a replay. If the property is violated, or an answer is
missing, the submission itself is checked, so every message about a mistake was observed on a live
call.

An answer that shared its batch with others is valid only if sequences are independent. The
properties about the batch are therefore replayed first, on answers that shared their batch with no
others.
"""

import functools
from collections.abc import Callable, Sequence

from torch import Tensor

from headcheck.grader import fault
from headcheck.grader.batch.recording import QueryId, compute_query_id, predict_outputs
from headcheck.properties.cases.case_tensors import DTYPES, name_gradients
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.harness.case_context import CaseContext, NamedGradients, Outputs, Query
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Note, Violation

AnswerLookup = Callable[[QueryId], tuple[Tensor, ...] | None]
"""Returns the outputs that a submission gave to a query; None if it gave none."""


class AnswerMissing(Exception):
    """A check makes a query that the submission has not answered."""


class AnswerReplay:
    """A submission, represented by its answers."""

    def __init__(self, harness: Harness, look_up_answer: AnswerLookup) -> None:
        self.harness = harness
        self.look_up_answer = look_up_answer
        self._contexts: dict[Case, ReplayedContext] = {}

    def get_context(self, case: Case) -> "ReplayedContext":
        """Return the context of this case: always the same one, so that results are shared."""
        if case not in self._contexts:
            self._contexts[case] = ReplayedContext(self, case)
        return self._contexts[case]

    def list_open(self, prop: Property, cases: Sequence[Case]) -> Sequence[Case]:
        """Return the cases on which the answers by themselves do not show that a property holds.

        All cases from the first violation on are open.
        """
        if prop.recordable_check is None or not prop.applies_to(self.harness.contract):
            return cases
        missing: list[Case] = []
        for number, case in enumerate(cases):
            check = functools.partial(self._holds, prop.recordable_check, case)
            try:
                holds = fault.contain(check, False, AnswerMissing)
            except AnswerMissing:
                missing.append(case)
                continue
            if not holds:
                return [*missing, *cases[number:]]
        return missing

    def _holds(self, check: Callable[[CaseContext], None], case: Case) -> bool:
        """Return whether a check holds on a case. Raises AnswerMissing."""
        try:
            check(self.get_context(case))
        except Violation:
            return False
        return True


class ReplayedContext(CaseContext):
    """A case answered as the submission has answered it."""

    def __init__(self, replay: AnswerReplay, case: Case) -> None:
        super().__init__(replay.harness.contract, case)
        self.replay = replay

    def answer_outputs(self, query: Query) -> Outputs:
        return predict_outputs(self.case, tuple(map(self._add_batch_axis, self._look_up(query))))

    def answer_gradients(self, query: Query) -> NamedGradients:
        x, *stored = self._look_up(query)
        callee = self.contract.callee
        paths = callee.get_parameter_shapes(self.case)
        by_path = dict(zip(paths, stored, strict=True))
        return name_gradients(callee, self.case, self._add_batch_axis(x), by_path)

    def with_case(self, case: Case) -> "ReplayedContext":
        return self.replay.get_context(case)

    def add_note(self, note: Note) -> None:
        self.replay.harness.add_note(note)

    def _look_up(self, query: Query) -> list[Tensor]:
        """Return the answer in the dtype of the case. Raise AnswerMissing if there is none."""
        answer = self.replay.look_up_answer(compute_query_id(query))
        if answer is None:
            raise AnswerMissing
        return [tensor.to(DTYPES[self.case.dtype]) for tensor in answer]

    def _add_batch_axis(self, tensor: Tensor) -> Tensor:
        return tensor if self.contract.has(Capability.BATCH) else tensor.unsqueeze(0)
