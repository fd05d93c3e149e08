"""The sequences of a batch are independent, and the memory layout does not matter."""

import torch
from torch import Tensor

from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import MemoryLayout
from headcheck.properties.terms.peculiarity import UNUSUAL_MEMORY, select_plainest

family_property = PropertyFamily(PropertyGroup.BATCH, FORM)


@family_property(
    C.BATCH,
    on=at_least(batch=2),
    limit=12,
    hint="no step may mix the sequences of a batch",
    usual=3,
)
def each_sequence_is_attended_alone(context: CaseContext) -> None:
    """A sequence gives the same output alone as in a batch with others."""
    # Any one of them, depending on the case: the first, the last or one between.
    b = context.case.seed % context.case.batch
    only, mask = slice(b, b + 1), _select_masks(context, slice(b, b + 1))
    alone = context.run(context.x[only], mask=mask)[0]
    context.assert_unchanged(alone, context.output[only], context.tolerance[only])


def _select_masks(context: CaseContext, sequences: slice | Tensor) -> Tensor | None:
    """Return the mask of some sequences; a mask that all sequences share is returned unchanged."""
    mask = context.mask
    return mask if mask is None or mask.dim() < 4 or mask.shape[0] == 1 else mask[sequences]


@family_property(
    C.BATCH, on=at_least(batch=2), limit=3, hint="is one sequence of the batch special?"
)
def permuting_the_batch_permutes_the_output(context: CaseContext) -> None:
    """Reordering the sequences of a batch reorders the outputs in the same way."""
    order = torch.arange(context.case.batch).roll(1)
    mask = _select_masks(context, order)
    permuted = context.run(context.x[order], mask=mask)[0]
    context.assert_unchanged(permuted, context.output[order], context.tolerance[order])


@family_property(
    C.STRIDED,
    C.TOKENS,
    limit=3,
    on=compose(at_least(tokens=3), with_values(memory=MemoryLayout.CONTIGUOUS)),
    choose=select_plainest,
    about=UNUSUAL_MEMORY,
    hint="in memory the numbers of x may lie in another order",
)
def the_memory_layout_does_not_matter(context: CaseContext) -> None:
    """The same numbers, laid out differently in memory, give the same output."""
    x = context.x[:1].repeat(context.case.batch, *(1,) * (context.x.dim() - 1))
    plain, expected = context.run(x), context.compute_expected(x)
    for memory in ("transposed", "expanded"):
        answer = context.run(x, memory=memory)
        context.assert_outputs_unchanged(answer, plain, expected)
