"""Sequences of a batch have nothing to do with each other, and memory layout is not content."""

import torch

from properties.cases.case_transforms import at_least
from properties.contract import Trait
from properties.families.contract import FORM
from properties.harness.harness import Trial
from properties.property import Claims, Group
from properties.subject import How

claims = Claims(Group.BATCH, FORM)
T = Trait


@claims(
    T.BATCH,
    on=at_least(batch=2),
    limit=12,
    hint="does a reshape, a softmax or a mean run over the batch axis?",
)
def each_sequence_is_attended_alone(trial: Trial) -> None:
    """A sequence gives the same output alone as in a batch with others."""
    # One of them: now the first, now the last, now one between.
    b = trial.case.seed % trial.case.batch
    mask = trial.mask
    if mask is not None and mask.dim() == 4 and mask.shape[0] > 1:
        mask = mask[b : b + 1]
    alone = trial.run(trial.x[b : b + 1], mask=mask, how=How())[0]
    trial.must_stay(alone, trial.output[b : b + 1], trial.allowed[b : b + 1])


@claims(T.BATCH, on=at_least(batch=2), limit=3, hint="is one sequence of the batch special?")
def permuting_the_batch_permutes_the_output(trial: Trial) -> None:
    """Sequences in another order give their outputs in that order."""
    order = torch.arange(trial.case.batch).roll(1)
    mask = trial.mask
    if mask is not None and mask.dim() == 4 and mask.shape[0] > 1:
        mask = mask[order]
    permuted = trial.run(trial.x[order], mask=mask, how=How())[0]
    trial.must_stay(permuted, trial.output[order], trial.allowed[order])


@claims(
    T.TOKENS,
    limit=3,
    on=at_least(tokens=3),
    hint="view() needs contiguous memory; reshape() does not",
)
def the_memory_layout_does_not_matter(trial: Trial) -> None:
    """The same numbers, laid out differently in memory, give the same output."""
    x = trial.x[:1].repeat(trial.case.batch, *(1,) * (trial.x.dim() - 1))
    plain = trial.run(x, how=How())
    rows = list(zip(plain, trial.expect(x).allowed, trial.names, strict=True))
    for memory in ("transposed", "expanded"):
        for got, (wanted, allowed, name) in zip(
            trial.run(x, how=How(memory=memory)), rows, strict=True
        ):
            trial.must_stay(got, wanted, allowed, name)


ALL = (
    each_sequence_is_attended_alone,
    permuting_the_batch_permutes_the_output,
    the_memory_layout_does_not_matter,
)
