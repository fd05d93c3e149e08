"""Whether the mask of a layer or a model hides its tokens.

A layer may make the mask of its attention from one that it is given, and may lay it along the wrong
axis or lose it on the way. What a token that is hidden holds must change nothing at the others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from headcheck.grader.grading.open_mode.layer_claims import Claim, JudgedClaim
from headcheck.properties.binding.building import construct
from headcheck.properties.binding.calls import (
    list_mask_names,
    list_mask_sources,
    list_masks_of_others,
)
from headcheck.properties.binding.followed_masks import iter_conventions
from headcheck.properties.binding.intent import find_stated_polarity
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.signatures.vocabulary import guess_roles
from headcheck.properties.subject import CallOptions, CallResult, Subject
from headcheck.properties.terms.call_form import CallForm, MaskConvention, MaskSource, Polarity
from headcheck.properties.terms.group import PropertyGroup
from headcheck.properties.violations.violation import ignore_crashes

MAX_INPUTS = 3
"""queries, keys and values: which of more inputs a mask is about, nobody knows"""
MASKED = Claim(
    "a_mask_hides_its_tokens",
    "What is in a token that the mask hides changes nothing at the others.",
    PropertyGroup.MASK,
)


@dataclass(frozen=True, slots=True)
class Change:
    """One token that holds something else, in some of the inputs."""

    token: int
    first: bool
    """whether it is one of the first input, such as queries; else it is one of all others"""

    def apply(self, x: Tensor, inputs: int) -> list[Tensor]:
        """Return the inputs with the change; numbers of tokens may be changed, too."""
        other = x.clone()
        other[:, self.token] = x[:, self.token].roll(1, 0)
        return [other if self.first is (n == 0) else x.clone() for n in range(inputs)]


@dataclass(frozen=True)
class MaskTrial:
    """A layer that is called with masks, as it was called without."""

    subject: Subject
    signature: Signature
    probe: CallProbe

    @property
    def inputs(self) -> int:
        return len([role for role in self.probe.form.inputs if role != "mask"])

    @cached_property
    def changes(self) -> Mapping[MaskSource, Sequence[Change]]:
        """The changes that other tokens show without a mask."""
        return {each: self._list_changes(each) for each in (MaskSource.MASK, MaskSource.LENGTHS)}

    def judge(self) -> JudgedClaim | None:
        """Return whether every mask hides tokens; None if none is accepted or it is unclear."""
        judged = list(filter(None, map(self._judge, self._list_names())))
        return next((each for each in judged if not each.holds), next(iter(judged), None))

    def _list_names(self) -> list[str]:
        """Return the names of the masks of what calls are given, and not of a context beside it."""
        call = self.signature.call
        names, of_others = list_mask_names(call), list_masks_of_others(call)
        roles = zip(call, guess_roles(call), strict=True)
        beside = any(p.has_default and role not in ("mask", "x") for p, role in roles)
        if self.inputs > MAX_INPUTS or (beside and not of_others):
            return []  # a mask may be of some inputs, or of the context, alone
        return [name for name in names if name not in of_others]

    def _judge(self, name: str) -> JudgedClaim | None:
        """Return whether some kind of mask hides a token; None if calls take none.

        If calls take a mask with a row for each sequence, this must hide it, whatever else they
        take.
        """
        forms = list(self._iter_forms(name))
        rows = [form for form in forms if form.mask.keys_only and form.mask.axes == 2]
        in_rows = [] if list_mask_sources(name) else rows
        follows = self._follows(in_rows)
        if follows is None:
            follows = self._follows(form for form in forms if form not in in_rows)
        if follows is None:
            return None
        got = f"it changes them, with each kind of mask that `{name}` takes"
        expected = "a token that is hidden changes nothing at the others"
        return JudgedClaim(MASKED) if follows else JudgedClaim(MASKED, expected, got)

    def _follows(self, forms: Iterable[CallForm]) -> bool | None:
        """Whether a mask in one of these forms hides a token; None if calls take none."""
        follows = None
        for form in forms:
            for change in self.changes[form.mask.given_as]:
                touched = self._touches(form, change)
                if touched is False:
                    return True
                follows = False if touched else follows
        return follows

    def _iter_forms(self, name: str) -> Iterator[CallForm]:
        """Yield the forms of calls with masks as they are said to be, those of keys first."""
        form, stated = self.probe.form, find_stated_polarity(self.signature, name)
        if "mask" not in form.inputs:
            given = {n: value for n, value in (form.given or {}).items() if n != name}
            form = replace(form, inputs=(*form.inputs, "mask"), given=given or None)
        form = replace(form, mask=MaskConvention(argument=name))
        every = (c for c in iter_conventions(name, form) if not c.given_as.is_of_documents)
        for convention in sorted(every, key=lambda each: not each.keys_only):
            opposite = {Polarity.KEEP: Polarity.BLOCK, Polarity.BLOCK: Polarity.KEEP}
            if stated is None or opposite.get(stated[0]) is not convention.polarity:
                yield replace(form, mask=convention)

    def _list_changes(self, given_as: MaskSource) -> list[Change]:
        """Return the changes that other tokens show without a mask given in this way.

        Lengths hide the last token; else in a causal layer a token sees another one before it.
        """
        token = self.probe.seen.x.shape[1] - 1 if given_as is MaskSource.LENGTHS else 1
        every = [Change(token, first=first) for first in (False, True)[self.inputs < 2 :]]
        return [each for each in every if self._touches(self.probe.form, each)]

    def _touches(self, form: CallForm, change: Change) -> bool | None:
        """Whether what a token holds changes others, if a mask hides it; None if a call raises."""
        x, masked = self.probe.seen.x, "mask" in form.inputs and form is not self.probe.form
        batch, tokens = x.shape[:2]
        keep = torch.ones(batch, 1, 1 if form.mask.keys_only else tokens, tokens, dtype=torch.bool)
        keep[..., change.token] = False
        options = CallOptions(apart=self.inputs)
        rows: list[list[Tensor]] = []
        with ignore_crashes():
            module = construct(self.subject, self.signature.name, self.probe.built, form)
            module.write(self.probe.seen.stored)
            for given in ([x.clone()] * self.inputs, change.apply(x, self.inputs)):
                called = module.forward([*given, *[keep] * masked], options)
                rows.append(self._list_rows(called, change))
        if len(rows) < 2 or not rows[0] or len(rows[0]) != len(rows[1]):
            return None
        return not all(map(torch.allclose, *rows))

    def _list_rows(self, called: CallResult, change: Change) -> list[Tensor]:
        """Return the results with a row for each token, without that of a change in these tokens.

        The first result belongs to the first input, and others may belong to any.
        """
        shape = self.probe.seen.x.shape[:2]
        results = [each for each in called.outputs if each.dim() == 3 and each.shape[:2] == shape]
        others = [n for n in range(shape[1]) if n != change.token]
        return [t[:, others] if n or change.first else t for n, t in enumerate(results)]


def judge_masked(subject: Subject, signature: Signature, probe: CallProbe) -> JudgedClaim | None:
    """Return whether masks hide tokens; None if no mask is accepted or the outcome is inconclusive.

    Raises SubmissionFailed if its process ends.
    """
    return MaskTrial(subject, signature, probe).judge() if probe.batched else None
