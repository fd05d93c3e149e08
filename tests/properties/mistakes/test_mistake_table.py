"""A menu names whatever explains an answer, as following every recipe alone does."""

import pytest
import torch
from torch import Tensor

from grader.batch.recording import Nobody
from properties.contract import Contract
from properties.harness.harness import Bench, Trial
from properties.mistakes.catalogue import CATALOGUE
from properties.mistakes.diagnosis import CASES, Sample, given_in
from properties.mistakes.mistake_table import Candidate, Menu, Order, menu, order, with_habits
from properties.mistakes.pipeline import RIGHT, Change, Given
from tests.properties.contracts import MASKED, MULTI_HEAD

KNOWN = [each for each in CATALOGUE if not each.rare][::3]


def given(contract: Contract = MULTI_HEAD, case: int = 0) -> Given:
    trial = Trial(Bench(Nobody(), contract), contract, contract.fit(CASES[case]))
    return given_in(trial, trial.x, trial.parameters)


def wanted(*, pairs: bool, case: int = 0) -> Order:
    return order(given(case=case), RIGHT, KNOWN, pairs=pairs)


def sample(answer: tuple[Tensor, ...], case: int = 0) -> Sample:
    return Sample(given(case=case), answer, RIGHT)


def one_by_one(asked: Sample, candidates: tuple[Candidate, ...]) -> list[Candidate]:
    """Those that explain an answer, with a habit or without."""
    return [
        (names, change)
        for names, change in candidates
        if asked.explained_by(RIGHT.with_(change))
        or any(map(asked.explained_by, with_habits(RIGHT, change)))
    ]


def ways() -> list[Change]:
    return [change for each in KNOWN for change in each.changes]


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("case", [0, 4])
def test_what_comes_near_is_what_explains(pairs: bool, case: int) -> None:
    made = menu(wanted(pairs=pairs, case=case))
    assert len(made.candidates) > (300 if pairs else 30)
    kitchen = sample((), case).kitchen
    compared = 0
    for change in ways()[::6] if pairs else ways():
        steps = kitchen.follow(RIGHT.with_(change))
        if steps is None:
            continue
        asked = sample(steps.answer, case)
        near = list(asked.near(KNOWN, pairs=pairs))
        assert all(any(one is other for other in made.candidates) for one in near)
        explaining = one_by_one(asked, made.candidates)
        # What explains is near; what is near by a habit alone is looked at and found wanting.
        assert [each for each in near if each in explaining] == explaining
        if asked.telling:
            assert pairs or explaining
            compared += 1
    assert compared > 5


def test_an_answer_with_a_habit_is_near() -> None:
    made = menu(wanted(pairs=False))
    kitchen = sample(()).kitchen
    found = 0
    for candidate in made.candidates:
        _, change = candidate
        steps = kitchen.follow(RIGHT.with_(change))
        if steps is None or all(bool(t.isfinite().all()) for t in steps.answer):
            continue
        for recipe in with_habits(RIGHT, change):
            after = kitchen.follow(recipe)
            if after is not None and after.answer[0].isfinite().any():
                assert candidate in list(sample(after.answer).near(KNOWN, pairs=False))
                found += 1
    assert found


def test_what_has_another_shape_or_is_off_comes_near_nothing() -> None:
    right = sample(()).right.answer
    for answer in ((right[0][:, :-1],), (right[0], right[0]), (right[0] + 1e3,)):
        assert list(sample(answer).near(KNOWN, pairs=True)) == []


@pytest.mark.parametrize(("share", "expected"), [(1 - 1e-9, 1), (1 + 1e-9, 0)])
def test_what_is_near_ends_where_the_tolerance_does(share: float, expected: int) -> None:
    row = torch.zeros(1, 2, dtype=torch.float64)
    one = Menu((((), {}),), {((2,),): (torch.tensor([0]), row)})
    limit = 1e-13 / 3  # no number of float32
    off = (torch.tensor([0.0, limit * share], dtype=torch.float64),)
    assert len(list(one.near(off, [limit]))) == expected


def test_a_menu_is_made_once_for_what_is_given() -> None:
    assert menu(wanted(pairs=False)) is menu(wanted(pairs=False))
    one = given()
    assert order(one, RIGHT, KNOWN, pairs=False) == order(given(), RIGHT, KNOWN, pairs=False)
    others = [
        order(given(case=1), RIGHT, KNOWN, pairs=False),
        order(given(MASKED), RIGHT, KNOWN, pairs=False),
        order(one, RIGHT, KNOWN[:-1], pairs=False),
        order(one, RIGHT, KNOWN, pairs=True),
        order(one, RIGHT.with_(KNOWN[0].changes[0]), KNOWN, pairs=False),
    ]
    assert order(one, RIGHT, KNOWN, pairs=False) not in others


def test_numbers_that_are_not_finite_must_be_so_in_both() -> None:
    right = sample(()).right.answer[0]
    holed = right.clone()
    holed[0, 0, 0] = torch.nan
    assert list(sample((holed,)).near(KNOWN, pairs=False)) == []
