"""Marks by hand: what they add, and that they stay."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from headcheck.exercises import BY_SLUG
from headcheck.grader import run as grader_run
from headcheck.grader.course import regrading
from headcheck.grader.course.marks import (
    MarkedCriterion,
    add_marks,
    describe_marks,
    find_newest,
    list_criteria,
    list_weighted_strangers,
)
from headcheck.grader.course.policy import NO_POLICY, Policy
from headcheck.grader.course.result_lookup import load_results
from headcheck.grader.course.results import describe_open
from headcheck.grader.course.store import manifest
from headcheck.grader.course.store.database import begin_write, open_engine
from headcheck.grader.course.store.manifest import Manifest
from headcheck.grader.course.store.records import Mark, Override
from headcheck.grader.course.store.store import Store, open_store
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.rubric import Criterion, Rubric
from headcheck.grader.seed import make_seed
from tests.grader.course.gradebooks import MakeRecord, refuse_to_judge, save_records

SETTINGS = Settings(exercise=BY_SLUG["causal_weights"])
STYLE = Criterion("style", 4.0)
REPORT = Criterion("report", 6.0)
EXTRA = Criterion("extra", 2.0, bonus=True)
RUBRICS = {"causal_weights": Rubric((STYLE, REPORT, EXTRA))}
WEEK = "week 1"


def make_mark(
    student: str = "ada", criterion: str = "style", points: float | None = 3.0, comment: str = ""
) -> Mark:
    return Mark(student, "causal_weights", criterion, points, comment, WEEK, "prof")


def given_marks(
    *marks: tuple[Criterion, float | None], weights: Sequence[float] = ()
) -> list[MarkedCriterion]:
    factors = weights or [1.0] * len(marks)
    return [
        MarkedCriterion(each, weight, make_mark(criterion=each.name, points=points))
        for (each, points), weight in zip(marks, factors, strict=True)
    ]


# ------------------------------------------------------------------------ arithmetic


def test_marks_add_to_points_and_maximum_and_a_bonus_to_points_alone() -> None:
    assert add_marks(50.0, 90.0, []) == (50.0, 90.0)
    assert add_marks(50.0, 90.0, given_marks((STYLE, 3.0), (REPORT, None))) == (53.0, 100.0)
    assert add_marks(90.0, 90.0, given_marks((STYLE, 4.0), (REPORT, 6.0))) == (100.0, 100.0)
    assert add_marks(90.0, 90.0, given_marks((STYLE, 4.0), (EXTRA, 2.0))) == (96.0, 94.0)
    assert add_marks(0.0, 0.0, given_marks((STYLE, 3.0))) == (3.0, 4.0)


def test_a_mark_counts_for_no_more_than_its_criterion() -> None:
    [each] = given_marks((STYLE, 9.0))
    assert (each.points, add_marks(0.0, 6.0, [each])) == (4.0, (4.0, 10.0))


def test_who_is_excused_neither_gains_nor_loses() -> None:
    excused = given_marks((STYLE, 4.0), (REPORT, None), weights=(1.0, 0.0))
    assert add_marks(43.0, 90.0, excused) == (50.0, 100.0)
    assert add_marks(90.0, 90.0, excused) == (100.0, 100.0)
    assert not any(each.is_open for each in excused)
    assert add_marks(0.0, 0.0, given_marks((STYLE, 4.0), weights=(0.0,))) == (0.0, 4.0)
    assert add_marks(0.0, 9.0, given_marks((EXTRA, 2.0), weights=(0.0,))) == (0.0, 9.0)


def test_a_criterion_with_a_factor_counts_so_many_times() -> None:
    twice = given_marks((STYLE, 2.0), (REPORT, 6.0), weights=(2.0, 1.0))
    assert add_marks(0.0, 0.0, twice) == (7.14, 10.0), "10 of 14"


POINTS = st.floats(0, 100).map(lambda x: round(x, 2))


@given(
    judged=POINTS,
    most=st.floats(100, 200).map(lambda x: round(x, 2)),
    marked=st.lists(st.tuples(POINTS, st.booleans(), st.none() | st.floats(0, 1)), max_size=5),
    weights=st.lists(st.floats(0, 100), min_size=5, max_size=5),
)
def test_scores_of_any_marks_stay_in_bounds(
    judged: float,
    most: float,
    marked: list[tuple[float, bool, float | None]],
    weights: list[float],
) -> None:
    criteria = [
        (Criterion(f"c{i}", points, bonus=bonus), None if share is None else share * points)
        for i, (points, bonus, share) in enumerate(marked)
    ]
    asked = [each for each, _ in criteria if not each.bonus]
    plain = given_marks(*criteria)
    score, full = add_marks(judged, most, plain)
    assert full == pytest.approx(most + sum(each.points for each in asked))
    assert score == pytest.approx(judged + sum(each.earned for each in plain), abs=0.02)
    weighted = given_marks(*criteria, weights=weights[: len(criteria)])
    bonus = sum(each.earned for each in weighted if each.criterion.bonus)
    score, same = add_marks(judged, most, weighted)
    assert same == full and -0.01 <= score <= full + bonus + 0.01
    nobody = given_marks(*criteria, weights=[0.0] * len(criteria))
    share = add_marks(judged, most, nobody)[0] / full
    assert share == pytest.approx(judged / most, abs=0.011 / full)


def test_the_newest_mark_counts() -> None:
    marks = [make_mark(points=1.0), make_mark(points=4.0, comment="better"), make_mark("bob")]
    about = "ada", "causal_weights"
    [style, report, extra] = list_criteria(RUBRICS, find_newest(marks), *about)
    assert (style.points, style.comment, report.points) == (4.0, "better", None)
    assert [each.is_open for each in (style, report, extra)] == [False, True, False]
    cleared = find_newest([*marks, make_mark(points=None, comment="gone")])
    [style, *_] = list_criteria(RUBRICS, cleared, *about)
    assert (style.points, style.comment, style.is_open) == (None, "", True)
    assert list_criteria(RUBRICS, cleared, "ada", "linear_layer") == ()


def test_marks_are_described_in_words() -> None:
    marked = given_marks((STYLE, 3.0), (REPORT, None), (EXTRA, 1.5), (EXTRA, None))
    marked[0] = replace(marked[0], mark=make_mark(comment="A \x1b[31mred\x1b[0m one.\nAnd more."))
    marked += given_marks((STYLE, 2.0), (REPORT, 1.0), weights=(2.0, 0.0))
    assert describe_marks(marked) == [
        "Marked by hand, style: 3 of 4 points. A \\x1b[31mred\\x1b[0m one.\nAnd more.",
        "Marked by hand, report: not yet marked",
        "Marked by hand, extra: 1.5 of up to 2 points",
        "Marked by hand, extra: no bonus",
        "Marked by hand, style: 2 of 4 points, counted 2 times",
        "Marked by hand, report: excused",
    ]


def test_weights_of_nobody_are_named() -> None:
    rubrics = {"rope": Rubric((STYLE,), {"ada": {"style": 0.0}, "eve": {"style": 0.0}})}
    assert list_weighted_strangers(rubrics, {("ada", "rope"), ("eve", "kv_cache")}) == ("eve",)


# ------------------------------------------------------------------------ the store


@cache
def plan() -> Manifest:
    return replace(manifest.build_manifest(SETTINGS), policy=Policy(rubrics=RUBRICS))


def test_marks_are_stored_and_an_override_replaces_them(store_url: str, record: MakeRecord) -> None:
    with open_store(store_url, create=True) as store:
        save_records(store, plan(), record("ada", 50), record("bob", 100))
        assert describe_open(load_results(store, WEEK)) == "not yet marked: 4 marks of 2 students"
        store.add_decisions([make_mark(points=1.0), make_mark(points=3.0, comment="\0 \ud800")])
        store.add_decisions([])
    with open_store(store_url) as store:
        ada, bob = load_results(store, WEEK)
        assert (ada.score, ada.max_score, ada.judged, ada.marked) == (53.0, 110.0, 50.0, 3.0)
        assert (bob.score, bob.max_score) == (100.0, 110.0)
        assert ada.criteria[0].comment == "\\x00 \\ud800"
        assert [each.points for each in store.load_marks(WEEK)] == [1.0, 3.0], "history stays"
        store.add_decisions([Override(WEEK, "ada", "causal_weights", 7.0, "", "prof")])
        [ada, _] = load_results(store, WEEK)
        assert (ada.score, ada.earned, ada.max_score) == (7.0, 53.0, 110.0)
        assert store.load_marks("another") == []


def test_a_rubric_begins_no_run_and_outlasts_the_next_one(store: Store, record: MakeRecord) -> None:
    silent = replace(plan(), policy=NO_POLICY)
    assert silent.key == plan().key and silent.verdict_key == plan().verdict_key
    changed = replace(SETTINGS, seed=make_seed(1))
    save_records(store, plan(), record("ada", 50))
    store.add_decisions([make_mark()])
    assert store.begin(WEEK, silent).id == 1
    later = manifest.build_manifest(changed, policy=store.find_policy(WEEK))
    save_records(store, later, record("ada", 100))
    assert len(store.list_runs()) == 2
    assert [each.score for each in load_results(store, WEEK)] == [103.0]


def test_a_run_has_one_secret(store: Store) -> None:
    first = store.get_secret(WEEK)
    assert len(first) == 64 and store.get_secret(WEEK) == first != store.get_secret("week 2")


BACK_TO_FIRST_VERSION = (
    *("DROP TABLE tasks", "DROP TABLE secrets", "DROP TABLE marks"),
    "ALTER TABLE overrides DROP COLUMN max_score",
    "UPDATE headcheck_version SET version_num = '0001'",
)


def test_a_store_from_before_marks_gets_their_tables(store_url: str, record: MakeRecord) -> None:
    with open_store(store_url, create=True) as store:
        save_records(store, plan(), record("ada", 50))
    with open_engine(store_url) as engine, begin_write(engine) as connection:
        for change in BACK_TO_FIRST_VERSION:
            connection.execute(text(change))
    with open_store(store_url) as store:
        store.add_decisions([make_mark()])
        assert [each.score for each in load_results(store, WEEK)] == [53.0]
        with store.engine.connect() as connection:
            assert connection.scalar(text("SELECT count(*) FROM marks")) == 1


def test_regrade_keeps_marks_and_changes_rubrics_without_judging(
    tmp_path: Path, record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grader_run, "create_sandbox", refuse_to_judge)
    planned = manifest.build_manifest(SETTINGS)
    with open_store(str(tmp_path / "c.db"), create=True) as store:
        save_records(store, planned, record("ada", 50), record("bob", 100))
        rubrics = Policy(rubrics=RUBRICS)
        added = regrading.regrade(store, WEEK, SETTINGS, trusted=False, policy=rubrics)
        assert added.changed_maxima == [("causal_weights", 100.0, 110.0)]
        assert [each.student for each in added.score_changes] == ["bob", "ada"]
        assert load_results(store, WEEK)[0].max_score == 100.0, "nothing is adopted yet"
        regrading.adopt(store, WEEK, added)
        store.add_decisions([make_mark(points=4.0), make_mark("bob", "report", 6.0)])
        smaller = {"causal_weights": Rubric((replace(STYLE, points=2.0), REPORT))}
        rubrics = Policy(rubrics=smaller)
        changed = regrading.regrade(store, WEEK, SETTINGS, trusted=False, policy=rubrics)
        [change] = [each for each in changed.score_changes if each.student == "ada"]
        assert (change.before, change.after, change.maxima) == (54.0, 52.0, (110.0, 108.0))
        regrading.adopt(store, WEEK, changed)
        same = regrading.regrade(store, WEEK, SETTINGS, trusted=False)
        assert same.score_changes == [] and same.manifest.policy.rubrics == smaller
        assert [each.score for each in load_results(store, WEEK)] == [52.0, 106.0]
        assert len(store.list_runs()) == 1
