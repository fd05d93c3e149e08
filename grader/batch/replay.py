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

from grader.batch.recording import Foretold, Key, Nobody, Unforeseen
from properties.case import Case
from properties.cases.case_tensors import DTYPES
from properties.contract import Contract, Trait
from properties.harness.harness import Bench, Trial
from properties.harness.module_adapter import by_canonical_name
from properties.property import Property
from properties.subject import How
from properties.violation import Note, Violation
from reference import Parameters

Recall = Callable[[Key], tuple[Tensor, ...] | None]
"""The outputs that a submission gave to a question; None if it gave none."""


class Recollection(Bench):
    """A submission as it is remembered from its answers."""

    def __init__(self, bench: Bench, recall: Recall) -> None:
        super().__init__(Nobody(), bench.asked)
        self.remembered = bench
        self.recall = recall

    @cached_property
    def contract(self) -> Contract:
        return self.remembered.contract

    def fresh(self, case: Case) -> Trial:
        return Recalled(self, self.contract, case)

    def note(self, note: Note) -> None:
        self.remembered.note(note)

    def keeps(self, claim: Property, cases: Sequence[Case]) -> bool:
        """Whether it is seen, from the answers alone, that the claim holds on all cases."""
        if not claim.applies_to(self.contract):
            return False
        try:
            for case in cases:
                claim.judge(self.trial(case))
        except (Violation, Unforeseen):
            return False
        return True


class Recalled(Foretold):
    """A trial whose answers are those that were given."""

    bench: Recollection

    def known(
        self, key: Key, x: Tensor, parameters: Parameters, mask: Tensor | None, how: How
    ) -> tuple[Tensor, ...]:
        outputs = self.bench.recall(key)
        if outputs is None:
            raise Unforeseen
        batched = self.contract.has(Trait.BATCH)
        dtype = DTYPES[self.case.dtype]
        return tuple((o if batched else o.unsqueeze(0)).to(dtype) for o in outputs)

    def gradients(self, cotangent: Tensor) -> dict[str, Tensor | None]:
        found = self.bench.recall(self._key_of_gradients(cotangent))
        if found is None:
            raise Unforeseen
        answering = self.contract.answering
        x, *stored = (gradient.to(DTYPES[self.case.dtype]) for gradient in found)
        return by_canonical_name(
            answering,
            self.case,
            x if self.contract.has(Trait.BATCH) else x.unsqueeze(0),
            dict(zip(answering.paths(self.case), stored, strict=True)),
        )
