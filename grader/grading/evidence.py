"""What can be drawn of the claims that do not hold: numbers for pictures, taken after the verdicts.

The first claim about values gets the attention weights and, where the diagnosis names a mistake in
splitting or merging heads, the way of every number. The first claim about the mask gets which
outputs moved. No other is drawn, so that a submission with a hundred failures costs no more than
one with two. Nothing here decides anything: where no picture can be taken, there is none.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from grader.grading.explain import HOPELESS
from grader.grading.reshaping import layouts
from grader.report.records import (
    Evidence,
    InfluenceEvidence,
    Marks,
    Numbers,
    PropertyRecord,
)
from grader.report.records import WeightsEvidence as Weights
from properties.case import Case
from properties.cases.case_transforms import prepared
from properties.contract import Contract, Returns, Trait
from properties.harness import tomography
from properties.harness.harness import Bench, Trial
from properties.mistakes.diagnosis import Finding, given_in
from properties.mistakes.pipeline import RIGHT, UNFIT, Kitchen, Recipe, Steps
from properties.property import Group, Verdict
from properties.subject import How
from properties.tolerance import PRECISIONS
from properties.violation import Kind, SubmissionFailed, Violation

MOST = 6
"""how many tokens a picture shows: more would be too small to read"""
FEWEST = 4
"""how many tokens a picture shows where the case can be given so many: of two there is little to
see"""
SHARPNESS = 2
"""standard deviation of the scores, at least: of nearly equal weights little is seen"""
WIDEST = 64
"""modules wider than this take too long to make again for a picture"""
SEEN = 1e-5
"""a weight that is off by less is no mistake to look at: float32 may be off by that"""
DIGITS = 6

T = TypeVar("T")
ABOUT_VALUES = (Group.VALUES, Group.WEIGHTS, Group.SCALE, Group.HEADS, Group.MASK)
NO_PICTURE = (SubmissionFailed, Violation, *UNFIT)
"""What ends the taking of a picture: the submission, its process, or shapes that do not fit."""


def pictured(
    records: Sequence[PropertyRecord],
    verdicts: Sequence[Verdict],
    bench: Bench,
    found: Sequence[Finding],
) -> list[PropertyRecord]:
    """The same records, some with evidence. `bench` needs a process that still answers.

    Of what took too long or too much memory nothing is asked again.
    """
    if any(verdict.status in HOPELESS for verdict in verdicts):
        return list(records)
    evidence: dict[int, Evidence] = {}
    with bench.quiet(), torch.no_grad():
        for at, taken in _taken(verdicts, bench, found):
            evidence[at] = _both(evidence.get(at, Evidence()), taken)
    return [
        replace(record, evidence=evidence[i]) if i in evidence else record
        for i, record in enumerate(records)
    ]


def _both(one: Evidence, other: Evidence) -> Evidence:
    return Evidence(
        one.weights or other.weights,
        one.influence or other.influence,
        one.layouts or other.layouts,
    )


def _taken(
    verdicts: Sequence[Verdict], bench: Bench, found: Sequence[Finding]
) -> Iterator[tuple[int, Evidence]]:
    """Evidence, each with the number of the verdict that it belongs to."""
    recipe = next((finding.recipe for finding in found if finding.recipe is not None), None)
    about_values = _first(verdicts, ABOUT_VALUES)
    if about_values is not None:
        at, case = about_values
        ways = layouts(recipe) if recipe is not None else ()
        seen = _first_taken(lambda trial: weights(trial, recipe), bench, case)
        if ways or seen is not None:
            yield at, Evidence(weights=seen, layouts=ways)
    about_the_mask = _first(verdicts, (Group.MASK,))
    if about_the_mask is not None:
        at, case = about_the_mask
        moved = _first_taken(influence, bench, case)
        if moved is not None:
            yield at, Evidence(influence=moved)


def _first(verdicts: Sequence[Verdict], groups: Sequence[Group]) -> tuple[int, Case] | None:
    """The first verdict on a claim of these groups that a number broke, and its case."""
    for i, verdict in enumerate(verdicts):
        broken = verdict.violation is not None and verdict.case is not None
        if broken and verdict.property.group in groups:
            assert verdict.violation is not None and verdict.case is not None
            if verdict.violation.kind in (Kind.VALUE, Kind.FINITE):
                return i, verdict.case
    return None


def _first_taken(take: Callable[[Trial], T | None], bench: Bench, case: Case) -> T | None:
    """What the first case shows on which there is something to see."""
    for shown in cases(bench.contract, case):
        with suppress(*NO_PICTURE):
            taken = take(bench.fresh(shown))
            if taken is not None:
                return taken
    return None


def cases(contract: Contract, case: Case) -> tuple[Case, ...]:
    """The cases that are drawn: with as many tokens as can be looked at, else the one that failed.

    None of them where the modules of the contract are too large.
    """
    tokens = min(max(case.tokens, FEWEST), MOST)
    longest = max(case.context_length, tokens)
    sharp = max(case.sharpness, SHARPNESS)
    better = contract.fit(replace(case, tokens=tokens, context_length=longest, sharpness=sharp))
    return tuple(c for c in dict.fromkeys((better, case)) if max(c.d_in, c.d_out) <= WIDEST)


# ------------------------------------------------------------------------------------- weights


def weights(trial: Trial, recipe: Recipe | None = None) -> Weights | None:
    """The attention weights where they are most wrong; None if they are right or out of reach.

    Those that were returned. If these are right: where the mistake is known, those that follow
    from it, else those that can be read from outputs. Raises SubmissionFailed, Violation.
    """
    ways = (_returned, _recovered) if recipe is None else (_returned, _following(recipe))
    for way in ways:
        found = way(trial)
        if found is not None:
            return found
    return None


def _returned(trial: Trial) -> Weights | None:
    visible = trial.may_attend(trial.case.tokens, trial.mask)
    rows = zip(trial.names, trial.expected.outputs, strict=True)
    for i, (name, expected) in enumerate(rows):
        if name != "output" and trial.contract.returns is not Returns.OUTPUT:
            pair = (expected, trial.answer[i])
            four = [t.unsqueeze(1) if t.dim() == 3 else t for t in pair]
            shown = _worst(trial.case, four[0], four[1], visible)
            if shown is not None:
                return replace(shown, of=name, made="returned")
    return None


def _recovered(trial: Trial) -> Weights | None:
    if not trial.contract.has(*tomography.NEEDS):
        return None
    for case in prepared(trial.contract, tomography.possible, [trial.case]):
        fresh = trial.bench.fresh(case)
        seen = tomography.recover(fresh)
        visible = fresh.may_attend(case.tokens, None)
        return _worst(case, seen.expected[None], seen.weights[None], visible)
    return None


def _following(recipe: Recipe) -> Callable[[Trial], Weights | None]:
    def followed(trial: Trial) -> Weights | None:
        if not trial.contract.has(Trait.ATTENTION):
            return None
        kitchen = Kitchen(given_in(trial, trial.x, trial.parameters), RIGHT)
        right, wrong = kitchen.follow(RIGHT), kitchen.follow(recipe)
        if right is None or wrong is None or _odd(right, wrong):
            return None
        visible = trial.may_attend(trial.case.tokens, trial.mask)
        shown = _worst(trial.case, right.used, wrong.used, visible)
        return None if shown is None else replace(shown, made="followed")

    return followed


def _odd(right: Steps, wrong: Steps) -> bool:
    return wrong.used.shape != right.used.shape


def _worst(case: Case, expected: Tensor, got: Tensor, visible: Tensor | None) -> Weights | None:
    """The head and sequence, and the part of the matrix, where weights are most wrong."""
    b, h, t, _ = expected.shape
    if got.shape != expected.shape:
        return None
    off = (got - expected).abs().nan_to_num(torch.inf, torch.inf)
    if float(off.max()) < SEEN:
        return None
    at = int(off.argmax())
    sequence, head, query, key = at // (h * t * t), at // (t * t) % h, at // t % t, at % t
    rows, columns = _window(query, t), _window(key, t)
    may = torch.ones(1, 1, t, t, dtype=torch.bool) if visible is None else visible
    part = (sequence, head, slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    return Weights(
        case=str(case),
        length=case.tokens,
        of="weights",
        made="recovered",
        sequence=sequence,
        head=head,
        queries=rows,
        keys=columns,
        may_attend=_marks(may.expand(b, h, t, t)[part]),
        expected=_numbers(expected[part]),
        got=_numbers(got[part]),
    )


def _window(at: int, tokens: int) -> tuple[int, ...]:
    """So many neighbouring tokens as are shown, the one at `at` among them."""
    start = max(0, at - MOST + 1)
    return tuple(range(start, min(start + MOST, tokens)))


# ----------------------------------------------------------------------------------- influence


def influence(trial: Trial) -> InfluenceEvidence | None:
    """Which outputs moved as each token changed; None where just those moved that should.

    None, too, if the answer to one input changes by itself: then nothing can be told. One call for
    each token, since stacked in a batch one sequence might move another. Raises SubmissionFailed,
    Violation.
    """
    case = trial.case
    if not trial.contract.has(Trait.TOKENS) or case.tokens < 2:
        return None
    tokens = range(min(case.tokens, MOST))
    base, again = trial.run(how=How())[0], trial.run(how=How())[0]
    if not torch.equal(base, again):
        return None
    moved = [_moved(trial, token, base) for token in tokens]
    got = torch.stack([m[0] for m in moved], -1)[:, : len(tokens)]
    expected = torch.stack([m[1] for m in moved], -1)[:, : len(tokens)]
    may = _may_move(trial)[:, : len(tokens), : len(tokens)]
    wrong = (got & ~may) | (expected & ~got)
    if not bool(wrong.any()):
        return None
    sequence = int(wrong.flatten(1).sum(1).argmax())
    return InfluenceEvidence(
        case=str(case),
        length=case.tokens,
        sequence=sequence,
        tokens=tuple(tokens),
        may=_marks(may[sequence]),
        expected=_marks(expected[sequence]),
        got=_marks(got[sequence]),
    )


def _moved(trial: Trial, token: int, base: Tensor) -> tuple[Tensor, Tensor]:
    """Which outputs move when a token changes: those of the submission, and those of the oracle."""
    x = trial.x.clone()
    x[:, token] = 3 - 2 * x[:, token]
    right, exact = trial.expected, trial.expect(x)
    rounding = 512 * PRECISIONS[trial.case.dtype].u * base.abs().nan_to_num().max()
    slack = 2 * (right.allowed[0].float32 + exact.allowed[0].float32) + rounding
    got = (trial.run(x, how=How())[0] - base).abs() > slack
    expected = (exact.outputs[0] - right.outputs[0]).abs() > slack
    return got.any(-1), expected.any(-1)


def _may_move(trial: Trial) -> Tensor:
    """For every output of every sequence, the tokens that it may depend on: its own, always."""
    b, h, t = trial.case.batch, trial.case.heads, trial.case.tokens
    visible = trial.may_attend(t, trial.mask)
    may = torch.ones(t, t, dtype=torch.bool) if visible is None else visible
    return may.expand(b, h, t, t).any(1) | torch.eye(t, dtype=torch.bool)


def _numbers(matrix: Tensor) -> Numbers:
    return tuple(tuple(_number(v) for v in row) for row in matrix.tolist())


def _number(value: float) -> float | None:
    """A number as it is worth keeping; None for what is no finite number, which JSON lacks."""
    return float(f"{value:.{DIGITS}g}") if abs(value) < float("inf") else None


def _marks(matrix: Tensor) -> Marks:
    return tuple(tuple(row) for row in matrix.tolist())
