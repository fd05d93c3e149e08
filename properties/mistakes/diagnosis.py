"""Name the mistake: find the known misconception that computes what a submission computes.

A few cases are chosen on which misconceptions differ: all sizes differ from each other, so that no
divisor can be taken for another; scores are sharp enough for a wrong scale to show; one case shows
the attention weights themselves (`properties.harness.tomography`). The submission answers them, and
every misconception of `properties.mistakes.catalogue` is followed on the same numbers. It is named
only if it explains every answer, bit for bit but for rounding. Most are refuted by the first case.

An answer is explained within 2⁸ u (1 + max |q kᵀ|) of its largest element, with u the roundoff of
float64: the bound of `properties.tolerance` for the scores that a wrong scale may have, as one
number. No two misconceptions of the catalogue come that near to each other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from properties.case import Case, Content, MaskForm
from properties.contract import Returns, Trait
from properties.harness import tomography
from properties.harness.harness import Bench, Trial
from properties.harness.module_adapter import Instance
from properties.mistakes import dropout_diagnosis
from properties.mistakes.catalogue import CATALOGUE, Misconception
from properties.mistakes.mistake_table import Candidate, Names, is_finite, menu, order, with_habits
from properties.mistakes.pipeline import LINEAR, RIGHT, Change, Given, Kitchen, Recipe, Steps
from properties.oracle import scale_of
from properties.subject import How
from properties.tolerance import PRECISIONS
from properties.violation import Status, SubmissionFailed, Violation
from reference import Parameters

CASES = (
    Case(
        batch=2,
        tokens=5,
        context_length=6,
        d_in=7,
        heads=3,
        head_dim=4,
        bias=True,
        sharpness=2,
        mask_form=MaskForm.BATCH_HEAD_QUERY_KEY,
        seed=2001,
    ),
    Case(
        batch=3,
        tokens=4,
        context_length=4,
        d_in=5,
        heads=2,
        head_dim=6,
        sharpness=2,
        mask_form=MaskForm.BATCH_ONE_ONE_KEY,
        seed=2002,
    ),
    Case(
        batch=2,
        tokens=7,
        context_length=11,
        d_in=8,
        heads=4,
        head_dim=2,
        bias=True,
        sharpness=2,
        mask_form=MaskForm.QUERY_KEY,
        seed=2003,
    ),
    Case(batch=1, tokens=9, context_length=9, d_in=4, head_dim=4, sharpness=2, seed=2004),
    Case(
        batch=2,
        tokens=6,
        context_length=6,
        d_in=6,
        heads=2,
        head_dim=3,
        content=Content.ZERO,
        seed=2005,
    ),
    Case(batch=2, tokens=3, context_length=3, d_in=3, head_dim=3, bias=True, seed=2012),
    Case(batch=2, tokens=5, context_length=7, d_in=5, head_dim=5, seed=2013),
    Case(batch=2, tokens=19, context_length=20, d_in=3, heads=2, head_dim=2, seed=2006),
)
"""Where misconceptions differ. Those with d_in = d_out are for what only runs there."""

EXTREME = tuple(
    replace(CASES[2], batch=8, sharpness=sharpness, mask_form=form, seed=seed)
    for sharpness, form, seed in (
        (100, MaskForm.QUERY_KEY, 2007),
        (250, MaskForm.BATCH_ONE_QUERY_KEY, 2008),
        (1000, MaskForm.ONE_HEAD_QUERY_KEY, 2009),
        (100_000, MaskForm.BATCH_HEAD_QUERY_KEY, 2010),
    )
)
"""For answers that are right on the others: scores that outweigh a fill and overflow an exp."""

ENOUGH = 3
"""how many answers there must be to explain"""


@dataclass(frozen=True)
class Finding:
    """A mistake that explains the answers."""

    misconception: Misconception
    matched: int
    """answers that it explains"""
    tried: int
    """cases that were tried"""
    alike: tuple[Misconception, ...] = ()
    """other mistakes that would have given the same answers"""
    recipe: Recipe | None = None
    """what gives the answers, with this mistake and those found beside it; None if not known"""


def diagnose(bench: Bench, device: str = "cpu") -> tuple[Finding, ...]:
    """The mistakes that explain what a submission computes; none if it is right, or unknown.

    A submission that raises on a case says nothing there, unless the mistake cannot be followed
    there either.
    """
    try:
        # Modules of the size of a real model take a second to make.
        few = bench.contract.sizes is not None
        cases, extreme = (CASES[:ENOUGH], EXTREME[:1]) if few else (CASES, EXTREME)
        samples = [*_samples(bench, cases, device), *_recovered(bench, device)]
        if not any(sample.wrong for sample in samples):
            samples += _samples(bench, extreme, device)
    except SubmissionFailed:
        return ()  # out of time or memory: nothing that could be compared
    known = [m for m in CATALOGUE if not m.of_heads or bench.contract.has(Trait.HEADS)]
    if bench.contract.returns is not Returns.WEIGHTS_TWICE:
        return _explanation(samples, known, pairs=not few) or _about_dropout(bench, device)
    parts = [[sample.part(i) for sample in samples] for i in (0, 1)]
    # What is returned besides, or instead, is no question where there is one thing to return.
    known = [m for m in known if not any("give" in change for change in m.changes)]
    found = [finding for each in parts for finding in _explanation(each, known, pairs=False)]
    return tuple({finding.misconception: finding for finding in found}.values())


def _about_dropout(bench: Bench, device: str) -> tuple[Finding, ...]:
    try:
        found = dropout_diagnosis.diagnose(bench, device)
    except (SubmissionFailed, Violation):
        return ()
    return (Finding(found, 2, 2),) if found else ()


class Sample:
    """One case, what the submission answered, and what every recipe gives."""

    def __init__(self, given: Given, answer: tuple[Tensor, ...] | None, base: Recipe) -> None:
        self.given = given
        self.answer = answer
        self.base = base
        self.kitchen = Kitchen(given, base)

    @cached_property
    def right(self) -> Steps:
        steps = self.kitchen.follow(self.base)
        assert steps is not None, "the right recipe can be followed on every case"
        return steps

    @cached_property
    def wrong(self) -> bool:
        """Whether the submission answered, with numbers, and not with the right ones."""
        return self.telling and not self.equals(self.right.answer)

    @cached_property
    def telling(self) -> bool:
        """Whether there are finite numbers in the answer."""
        return self.answer is not None and any(bool(t.isfinite().any()) for t in self.answer)

    @cached_property
    def _finite(self) -> list[Tensor | None]:
        """Which elements of each tensor of the answer are finite; None where all are."""
        masks = [t.isfinite() for t in self.answer or ()]
        return [None if bool(mask.all()) else mask for mask in masks]

    @cached_property
    def _tolerances(self) -> list[float]:
        largest = float(self.right.raw.abs().max())
        relative = 2**8 * PRECISIONS["float64"].u * (1 + largest)
        finite = [t[t.isfinite()].abs() for t in self.answer or ()]
        return [relative * float(t.max()) if t.numel() else 0.0 for t in finite]

    def equals(self, other: tuple[Tensor, ...]) -> bool:
        """Whether these are the answer, but for rounding; what is not finite, is it in both."""
        answer = self.answer or ()
        return len(answer) == len(other) and all(
            a.shape == b.shape and _near(a, b, tolerance, finite)
            for a, b, tolerance, finite in zip(
                answer, other, self._tolerances, self._finite, strict=True
            )
        )

    def near(self, known: Sequence[Misconception], *, pairs: bool) -> Iterator[Candidate]:
        """The mistakes, or pairs of them, that may explain this answer."""
        wanted = order(self.given, self.base, known, pairs=pairs)
        return menu(wanted).near(self.answer or (), self._tolerances)

    def explained_by(self, recipe: Recipe) -> bool:
        """Whether a recipe gives this answer, as far as there is one."""
        steps = self.kitchen.follow(recipe)
        if self.answer is None or not self.telling:
            return True
        return steps is not None and self.equals(steps.answer)

    def part(self, index: int) -> "Sample":
        """One of two answers, as if it had been the only one asked for."""
        one = None if self.answer is None else self.answer[index : index + 1]
        return Sample(replace(self.given, wanted=("matrix",)), one, self.base)


def _near(got: Tensor, other: Tensor, tolerance: float, finite: Tensor | None) -> bool:
    if finite is None:
        return bool(((got - other).abs() <= tolerance).all())
    if not torch.equal(finite, other.isfinite()):
        return False
    return bool(((got - other).abs() <= tolerance)[finite].all())


# ------------------------------------------------------------------------------- samples


def _samples(bench: Bench, cases: Iterable[Case], device: str) -> list[Sample]:
    fitted = dict.fromkeys(bench.contract.fit(replace(case, device=device)) for case in cases)
    return [_sample(bench.fresh(case)) for case in fitted]


def _recovered(bench: Bench, device: str) -> list[Sample]:
    """A case on which the outputs are attention weights."""
    case = bench.contract.fit(replace(CASES[0], mask_form=MaskForm.NONE, device=device))
    if not bench.contract.has(*tomography.NEEDS) or case.d_in < 2:
        return []
    trial = bench.fresh(case)
    return [
        _sample(
            trial,
            tomography.sequence(case, 0, tomography.payload_width(case)),
            tomography.routing(trial),
        )
    ]


def _sample(trial: Trial, x: Tensor | None = None, parameters: Parameters | None = None) -> Sample:
    x = trial.x if x is None else x
    parameters = parameters or trial.parameters
    base = RIGHT if trial.contract.has(Trait.ATTENTION) else LINEAR
    return Sample(given_in(trial, x, parameters), _answer(trial, x, parameters), base)


def given_in(trial: Trial, x: Tensor, parameters: Parameters) -> Given:
    """What a recipe is followed on, in a trial."""
    contract, case = trial.contract, trial.case
    return Given(
        x=x,
        parameters=parameters,
        heads=case.heads,
        may_attend=trial.may_attend(case.tokens, trial.mask),
        scale=scale_of(contract, case),
        context_length=case.context_length,
        causal=contract.has(Trait.CAUSAL),
        wanted=("output", "weights")
        if contract.returns is Returns.OUTPUT_AND_WEIGHTS
        else ("output",),
    )


def _answer(trial: Trial, x: Tensor, parameters: Parameters) -> tuple[Tensor, ...] | None:
    """What comes back, in whatever form; None if the submission raises."""
    try:
        _set(trial.instance, parameters)
        returned = trial.instance.forward(x, trial.mask, How())
    except SubmissionFailed as failure:
        if failure.status is Status.CRASHED:
            return None
        raise
    return tuple(output.to(torch.float64) for output in returned.outputs)


def _set(instance: Instance, parameters: Parameters) -> None:
    """Give it these parameters; where it lacks some, those that it has."""
    try:
        instance.set(parameters)
    except SubmissionFailed:
        present = instance.holder.tensors()
        stored = dict(instance.contract.stored(parameters, instance.case))
        if stored.keys() <= present.keys():
            raise
        instance.holder.write({path: stored[path] for path in stored if path in present})
        instance.current = parameters


# --------------------------------------------------------------------------- explanations


def _explanation(
    samples: Sequence[Sample], known: Sequence[Misconception], pairs: bool
) -> tuple[Finding, ...]:
    first = next((sample for sample in samples if sample.wrong), None)
    if first is None or sum(sample.telling for sample in samples) < ENOUGH:
        return ()
    others = [sample for sample in samples if sample is not first]
    with torch.no_grad():
        for together in (False, True) if pairs else (False,):
            found = [
                (names, recipe)
                for names, change in first.near(known, pairs=together)
                for recipe in _fitting(first, change)
                if all(sample.explained_by(recipe) for sample in others)
            ]
            if found:
                return _findings(found, samples)
    return ()


def _findings(
    found: Sequence[tuple[Names, Recipe]], samples: Sequence[Sample]
) -> tuple[Finding, ...]:
    best, recipe = found[0]
    single = [names[0] for names, _ in found if len(names) == 1]
    alike = dict.fromkeys(m for m in single if m not in best and not m.rare)
    matched = sum(sample.telling for sample in samples)
    return tuple(Finding(each, matched, len(samples), tuple(alike), recipe) for each in best)


def _fitting(sample: Sample, change: Change) -> Iterator[Recipe]:
    """A recipe with a change if it explains a sample; and with what people do about NaN."""
    recipe = sample.base.with_(change)
    steps = sample.kitchen.follow(recipe)
    if steps is None:
        return
    explains = sample.equals(steps.answer)
    if explains:
        yield recipe
    # Where there is no NaN here, there may be one on other samples.
    if explains or not is_finite(steps.answer):
        yield from filter(sample.explained_by, with_habits(sample.base, change))
