"""Whether the mask of a layer or a model hides its tokens.

A layer may make the mask of its attention from one that it is given, and may lay it along the wrong
axis or lose it on the way. What a token that is hidden holds must change nothing at the others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.grader.grading.claims import Claim, JudgedClaim
from headcheck.properties.binding.building import construct
from headcheck.properties.binding.calls import list_mask_names
from headcheck.properties.binding.followed_masks import iter_conventions
from headcheck.properties.binding.intent import find_stated_polarity
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.binding.signature import Signature
from headcheck.properties.subject import CallOptions, Subject
from headcheck.properties.terms.call_form import CallForm, MaskConvention, MaskSource, Polarity
from headcheck.properties.terms.group import PropertyGroup
from headcheck.properties.violations.violation import Status, SubmissionFailed

MASKED = Claim(
    "a_mask_hides_its_tokens",
    "What is in a token that the mask hides changes nothing at the others.",
    PropertyGroup.MASK,
)
HIDDEN = 1
"""the token that is hidden: in a causal layer the first one would see nothing, if it was this"""


def judge_masked(subject: Subject, signature: Signature, probe: CallProbe) -> JudgedClaim | None:
    """Return whether masks hide tokens; None if no mask is taken, or calls do not tell.

    Raises SubmissionFailed if its process ends.
    """
    names = list_mask_names(signature.call)
    if len([role for role in probe.form.inputs if role != "mask"]) != 1 or not probe.batched:
        return None
    other = _change(probe.seen.x)
    again = probe.observe(other)
    if again is None or not _differ_beside(probe.seen.outputs, again.outputs):
        return None  # it changes nothing, hidden or not, or rows are no tokens
    every = (_judge(subject, signature, probe, name, other) for name in names)
    judged = list(filter(None, every))
    return next((each for each in judged if not each.holds), next(iter(judged), None))


def _change(x: Tensor) -> Tensor:
    """Return other tokens, or numbers of tokens, which differ where one will be hidden."""
    other = x.clone()
    other[:, HIDDEN] = x[:, HIDDEN].roll(1, 0)
    return other


def _judge(
    subject: Subject, signature: Signature, probe: CallProbe, name: str, other: Tensor
) -> JudgedClaim | None:
    """Return whether some kind of mask hides a token; None if calls take none."""
    taken = False
    for form in _iter_forms(signature, probe, name):
        found = _call(subject, signature, probe, form, other)
        taken |= bool(found)
        if found and not _differ_beside(*found):
            return JudgedClaim(MASKED)
    if not taken:
        return None
    got = f"it changes them, with each kind of mask that `{name}` takes"
    return JudgedClaim(MASKED, "a token that is hidden changes nothing at the others", got)


def _iter_forms(signature: Signature, probe: CallProbe, name: str) -> Iterator[CallForm]:
    """Yield the forms of calls with masks as they are said to be, those of keys first."""
    form, stated = probe.form, find_stated_polarity(signature, name)
    if "mask" not in form.inputs:
        given = {n: value for n, value in (form.given or {}).items() if n != name}
        form = replace(form, inputs=(*form.inputs, "mask"), given=given or None)
    form = replace(form, mask=MaskConvention(argument=name))
    of_masks = (c for c in iter_conventions(name, form) if c.given_as is MaskSource.MASK)
    for convention in sorted(of_masks, key=lambda each: not each.keys_only):
        opposite = stated is not None and {stated[0], convention.polarity} == {
            Polarity.KEEP,
            Polarity.BLOCK,
        }
        if not opposite:
            yield replace(form, mask=convention)


def _call(
    subject: Subject, signature: Signature, probe: CallProbe, form: CallForm, other: Tensor
) -> tuple[Sequence[Tensor], Sequence[Tensor]] | None:
    """Return the results for tokens of which one is hidden, and with another one there."""
    batch, tokens = other.shape[:2]
    keep = torch.ones(batch, 1, 1 if form.mask.keys_only else tokens, tokens, dtype=torch.bool)
    keep[..., HIDDEN] = False
    try:
        module = construct(subject, signature.name, probe.built, form)
        module.write(probe.seen.stored)
        first, second = (
            module.forward([x.clone(), keep], CallOptions()).outputs for x in (probe.seen.x, other)
        )
    except SubmissionFailed as failure:
        if failure.status is not Status.CRASHED:
            raise
        return None
    return first, second


def _differ_beside(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Whether the first results differ at other tokens than the one that was changed."""
    one, other = some[0], others[0]
    if one.shape != other.shape or one.dim() != 3 or one.shape[1] <= HIDDEN + 1:
        return False
    rows = [n for n in range(one.shape[1]) if n != HIDDEN]
    return not torch.allclose(one[:, rows], other[:, rows])
