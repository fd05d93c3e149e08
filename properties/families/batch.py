"""Sequences of a batch have nothing to do with each other, and memory layout is not content."""

import torch

from properties.cases.case_transforms import at_least
from properties.contract import Capability
from properties.families.contract import FORM
from properties.harness.case_context import CaseContext
from properties.property import PropertyFamily, PropertyGroup

family_property = PropertyFamily(PropertyGroup.BATCH, FORM)
C = Capability


@family_property(
    C.BATCH,
    on=at_least(batch=2),
    limit=12,
    hint="does a reshape, a softmax or a mean run over the batch axis?",
)
def each_sequence_is_attended_alone(context: CaseContext) -> None:
    """A sequence gives the same output alone as in a batch with others."""
    # One of them: now the first, now the last, now one between.
    b = context.case.seed % context.case.batch
    mask = context.mask
    if mask is not None and mask.dim() == 4 and mask.shape[0] > 1:
        mask = mask[b : b + 1]
    alone = context.run(context.x[b : b + 1], mask=mask)[0]
    context.assert_unchanged(alone, context.output[b : b + 1], context.tolerance[b : b + 1])


@family_property(
    C.BATCH, on=at_least(batch=2), limit=3, hint="is one sequence of the batch special?"
)
def permuting_the_batch_permutes_the_output(context: CaseContext) -> None:
    """Sequences in another order give their outputs in that order."""
    order = torch.arange(context.case.batch).roll(1)
    mask = context.mask
    if mask is not None and mask.dim() == 4 and mask.shape[0] > 1:
        mask = mask[order]
    permuted = context.run(context.x[order], mask=mask)[0]
    context.assert_unchanged(permuted, context.output[order], context.tolerance[order])


@family_property(
    C.TOKENS,
    limit=3,
    on=at_least(tokens=3),
    hint="view() needs contiguous memory; reshape() does not",
)
def the_memory_layout_does_not_matter(context: CaseContext) -> None:
    """The same numbers, laid out differently in memory, give the same output."""
    x = context.x[:1].repeat(context.case.batch, *(1,) * (context.x.dim() - 1))
    plain = context.run(x)
    rows = list(
        zip(plain, context.compute_expected(x).tolerances, context.output_names, strict=True)
    )
    for memory in ("transposed", "expanded"):
        for got, (wanted, allowed, name) in zip(context.run(x, memory=memory), rows, strict=True):
            context.assert_unchanged(got, wanted, allowed, name)


ALL = (
    each_sequence_is_attended_alone,
    permuting_the_batch_permutes_the_output,
    the_memory_layout_does_not_matter,
)
