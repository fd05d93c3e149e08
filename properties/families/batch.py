"""Sequences of a batch have nothing to do with each other, and memory layout is not content."""

import torch

from properties.cases.case_transforms import at_least
from properties.contract import Capability
from properties.families.contract import FORM
from properties.harness.harness import CaseContext
from properties.property import PropertyFamily, PropertyGroup
from properties.subject import CallOptions

family_property = PropertyFamily(PropertyGroup.BATCH, FORM)
C = Capability


@family_property(
    C.BATCH,
    on=at_least(batch=2),
    limit=12,
    hint="does a reshape, a softmax or a mean run over the batch axis?",
)
def each_sequence_is_attended_alone(trial: CaseContext) -> None:
    """A sequence gives the same output alone as in a batch with others."""
    # One of them: now the first, now the last, now one between.
    b = trial.case.seed % trial.case.batch
    mask = trial.mask
    if mask is not None and mask.dim() == 4 and mask.shape[0] > 1:
        mask = mask[b : b + 1]
    alone = trial.run(trial.x[b : b + 1], mask=mask, how=CallOptions())[0]
    trial.assert_unchanged(alone, trial.output[b : b + 1], trial.tolerance[b : b + 1])


@family_property(
    C.BATCH, on=at_least(batch=2), limit=3, hint="is one sequence of the batch special?"
)
def permuting_the_batch_permutes_the_output(trial: CaseContext) -> None:
    """Sequences in another order give their outputs in that order."""
    order = torch.arange(trial.case.batch).roll(1)
    mask = trial.mask
    if mask is not None and mask.dim() == 4 and mask.shape[0] > 1:
        mask = mask[order]
    permuted = trial.run(trial.x[order], mask=mask, how=CallOptions())[0]
    trial.assert_unchanged(permuted, trial.output[order], trial.tolerance[order])


@family_property(
    C.TOKENS,
    limit=3,
    on=at_least(tokens=3),
    hint="view() needs contiguous memory; reshape() does not",
)
def the_memory_layout_does_not_matter(trial: CaseContext) -> None:
    """The same numbers, laid out differently in memory, give the same output."""
    x = trial.x[:1].repeat(trial.case.batch, *(1,) * (trial.x.dim() - 1))
    plain = trial.run(x, how=CallOptions())
    rows = list(zip(plain, trial.compute_expected(x).tolerances, trial.output_names, strict=True))
    for memory in ("transposed", "expanded"):
        for got, (wanted, allowed, name) in zip(
            trial.run(x, how=CallOptions(memory=memory)), rows, strict=True
        ):
            trial.assert_unchanged(got, wanted, allowed, name)


ALL = (
    each_sequence_is_attended_alone,
    permuting_the_batch_permutes_the_output,
    the_memory_layout_does_not_matter,
)
