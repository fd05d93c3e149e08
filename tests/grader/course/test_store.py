"""The store: what is finished stays, once, and is what was put in. On both databases."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.course.intake.roster import Student
from headcheck.grader.course.policy import Group, Policy
from headcheck.grader.course.result_lookup import find_result, load_results
from headcheck.grader.course.results import compare_results, compute_results
from headcheck.grader.course.store import manifest
from headcheck.grader.course.store.database import StoreError, parse_url
from headcheck.grader.course.store.manifest import Manifest, ManifestError
from headcheck.grader.course.store.records import (
    Comment,
    GradedFile,
    Override,
    hash_content,
    make_missing_content,
)
from headcheck.grader.course.store.store import Store, open_store
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.deadlines import Amount, Deadline, Extension
from headcheck.grader.report.feedback import Feedback, FeedbackLevel
from headcheck.grader.report.records import ErrorRecord
from headcheck.grader.report.rubric import Criterion, Rubric
from headcheck.grader.seed import make_seed
from tests.grader.course.gradebooks import (
    DAY,
    DUE,
    WEEK,
    HandIn,
    MakeRecord,
    make_hand_in,
    save_records,
)

SETTINGS = Settings(exercise=BY_SLUG["linear_layer"])
ODD = "Ö\"Neil, 'Zoë' 李 = \0 \ud800 %s :x"


@cache
def plan() -> Manifest:
    return manifest.build_manifest(SETTINGS)


def list_scores(files: Sequence[GradedFile]) -> list[tuple[str, float]]:
    return [(each.student, each.records[0].score) for each in files]


def test_stored_records_round_trip(store_url: str, record: MakeRecord) -> None:
    when = datetime(2026, 2, 1, 10, 30, tzinfo=UTC)
    given = replace(record(points=50), seconds=0.123456789)
    hand_in = replace(make_hand_in(ODD, ODD, 3, late=True), submitted=when, handle=ODD)
    with open_store(store_url, create=True) as store:
        save_records(store, plan(), given, of=[hand_in])
    with open_store(store_url) as store:
        (stored,) = store.load_graded_files(WEEK)
        clean = ODD.replace("\0", "\\x00").replace("\ud800", "\\ud800")
        assert (stored.student, stored.file, stored.handle, stored.name) == (clean,) * 4
        assert (stored.attempt, stored.late, stored.submitted_at) == (3, True, when)
        (read,) = stored.records
        assert (read.student, read.file) == (clean, clean)
        same = {"student": "", "file": "", "properties": ()}
        assert replace(read, **same) == replace(given, **same)  # type: ignore[arg-type]
        assert read.properties[1].counterexample == given.properties[1].counterexample
        assert store.load_content(stored.content) == b"ada"
        assert store.load_newest_run(WEEK).manifest == plan()


def test_the_same_bytes_have_one_judgement(store: Store, record: MakeRecord) -> None:
    save_records(store, plan(), record(points=50), of=[make_hand_in("ada"), make_hand_in("bob")])
    again = replace(record(points=0))  # what another process found at the same time
    save_records(store, plan(), again, of=[make_hand_in("eve")])
    known = store.load_judgement_ids(plan().key)
    assert len(known) == 1
    stored = store.load_graded_files(WEEK)
    assert list_scores(stored) == [("ada", 50.0), ("bob", 50.0), ("eve", 50.0)]
    assert store.load_verdicts(plan().key)[next(iter(known))][0].score == 50.0
    assert (store.load_verdicts("another"), store.load_judgement_ids("another")) == ({}, {})


def test_changed_settings_start_a_run_and_the_newest_counts(
    store: Store, record: MakeRecord
) -> None:
    other = replace(plan(), seed=1)
    assert other.key != plan().key
    save_records(store, plan(), record("ada", 50), record("bob", 50))
    save_records(store, other, record("ada", 100))
    assert [run.manifest.seed for run in store.list_runs()] == [0, 1]
    # bob was not judged in the newer run: what he has stands.
    assert list_scores(store.load_graded_files(WEEK)) == [("ada", 100.0), ("bob", 50.0)]
    assert store.begin(WEEK, other).id == 2
    assert store.begin(WEEK, plan()).id == 3
    assert store.load_graded_files("week 2") == []


def test_irrelevant_options_do_not_start_another_run(store: Store, record: MakeRecord) -> None:
    elsewhere = replace(plan(), python="3.99", platform="elsewhere", attempts="best")
    assert elsewhere.key == plan().key
    run = store.begin("a", plan())
    assert store.begin("a", elsewhere) == run
    assert store.update_manifest(run, elsewhere).manifest.python == "3.99"
    assert store.load_newest_run("a").manifest.python == "3.99"


def test_settling_drops_withdrawn_attempts(store: Store, record: MakeRecord) -> None:
    first, second = make_hand_in("ada"), make_hand_in("ada", attempt=2)
    save_records(store, plan(), record("ada", 100), of=[first, make_hand_in("bob")])
    save_records(store, plan(), record("ada", 50), of=[second])
    run = store.load_newest_run(WEEK)
    store.remove_superseded(run, [second])
    kept = [(each.student, each.attempt) for each in store.load_graded_files(WEEK)]
    assert kept == [("ada", 2), ("bob", 1)]


def test_many_rows_are_linked_in_one_go(store: Store, record: MakeRecord) -> None:
    save_records(store, plan(), record("ada"))
    (judgement,) = store.load_judgement_ids(plan().key).values()
    run = store.load_newest_run(WEEK)
    many = [(make_hand_in(f"s{i:04}"), judgement) for i in range(1203)]
    store.link_judgements(run, [*many, many[0]])
    assert len(store.load_graded_files(WEEK)) == 1204
    store.remove_superseded(run, [])
    store.remove_superseded(run, [replace(h, file="b.py") for h, _ in many])
    assert [s.student for s in store.load_graded_files(WEEK)] == ["ada"]


# ------------------------------------------------------------------------ decisions


def test_newest_decision_holds_across_runs(store: Store, record: MakeRecord) -> None:
    def decide(score: float | None) -> None:
        store.add_decisions([Override(WEEK, "ada", "causal_weights", score, ODD, "prof")])

    save_records(store, plan(), record("ada", 50))
    decide(70.0)
    decide(80.0)
    save_records(store, replace(plan(), seed=1), record("ada", 100))
    (standing,) = load_results(store, WEEK)
    assert (standing.score, standing.judged, standing.max_score) == (80.0, 100.0, 100.0)
    assert standing.override and standing.override.author == "prof"
    assert standing.override.created and "\\x00" in standing.override.reason
    decide(None)
    assert [s.score for s in load_results(store, WEEK)] == [100.0]
    assert store.load_overrides("week 2") == {}


def test_comments_are_about_an_exercise_or_all(store: Store, record: MakeRecord) -> None:
    save_records(store, plan(), record("ada"))
    for exercise, text in (("", "all"), ("causal_weights", "this"), ("linear_layer", "other")):
        store.add_decisions([Comment(WEEK, "ada", exercise, text, "prof")])
    assert load_results(store, WEEK)[0].comments == ("all", "this")


def test_decision_needs_an_existing_target(store: Store, record: MakeRecord) -> None:
    with pytest.raises(StoreError, match=r"no run 'week 1'; there are: none yet"):
        find_result(store, WEEK, "ada", None)
    run = store.begin(WEEK, plan())
    both = [record("ada"), record("ada", exercise="linear_layer")]
    store.save_judgement(run, plan().key, hash_content(b"x", "py"), [make_hand_in("ada")], both)
    assert find_result(store, WEEK, "ada", "linear_layer").score == 100.0
    for student, exercise, message in (
        ("adx", None, "week 1/adx: nobody with this id.*did you mean ada?"),
        ("ada", None, "say which with --exercise: causal_weights, linear_layer"),
        ("ada", "x", "no result for 'x'"),
    ):
        with pytest.raises(StoreError, match=message):
            find_result(store, WEEK, student, exercise)


# ------------------------------------------------------------------------ results


def test_the_best_of_several_files_counts(record: MakeRecord, handed: HandIn) -> None:
    error = ErrorRecord("not_found", "nothing")
    lost = (replace(record("ada", 0), exercise=None, max_score=0.0, error=error),)
    files = [handed("ada", 50, text="one"), handed("ada", text="two")]
    files += [handed("ada", text="three", records=lost), handed("bob", records=lost)]
    # The only exercise there is must be what bob's unreadable file was meant for.
    found = compute_results(files)
    assert [(each.student, each.exercise, each.score, each.max_score) for each in found] == [
        ("ada", "causal_weights", 100.0, 100.0),
        ("bob", "causal_weights", 0.0, 100.0),
    ]
    several = (record("eve", 50), record("eve", exercise="linear_layer"))
    found = compute_results([*files, handed("eve", records=several)])
    assert [(each.student, each.exercise, each.score) for each in found] == [
        ("ada", "causal_weights", 100.0),
        ("bob", "", 0.0),
        ("eve", "causal_weights", 50.0),
        ("eve", "linear_layer", 100.0),
    ]


def test_changes_are_sorted_by_points_lost(handed: HandIn) -> None:
    before = compute_results([handed("ada", 100), handed("bob", 50), handed("eve", 0)])
    after = [replace(s, score=50.0) for s in before[:-1]]
    found = compare_results(before, after)
    assert [(c.student, c.gain, c.before, c.after) for c in found] == [("ada", -50.0, 100.0, 50.0)]
    gone = replace(before[0], student="new", score=10.0)
    assert [(c.student, c.before) for c in compare_results([], [gone])] == [("new", None)]


# ------------------------------------------------------------------------ what is no store


def test_names_of_stores(tmp_path: Path) -> None:
    assert parse_url("a b.db").render_as_string() == "sqlite:///a b.db"
    assert parse_url("postgres://u:p@h/d").drivername == "postgresql+psycopg"
    with pytest.raises(StoreError, match="mysql: a store is a file of SQLite or"):
        parse_url("mysql://h/d")
    with pytest.raises(StoreError, match="URL is not valid"):
        parse_url("://")


def test_foreign_database_is_refused(tmp_path: Path) -> None:
    def refusal(path: Path | str) -> str:
        with pytest.raises(StoreError) as caught, open_store(str(path)):
            pass
        return str(caught.value)

    assert "no such store; `headcheck grade" in refusal(tmp_path / "none.db")
    noise = tmp_path / "noise.db"
    noise.write_bytes(b"this is no database" * 100)
    assert "file is not a database" in refusal(noise)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    connection.close()
    assert "another program's database; it has a table 'bookmarks'" in refusal(other)
    nowhere = refusal("postgresql://u:secret@localhost:1/d")
    assert "cannot be opened" in nowhere and "secret" not in nowhere
    with pytest.raises(StoreError, match="no slash"), open_store("sqlite://", create=True) as store:
        store.begin("a/b", manifest.build_manifest(SETTINGS))


# ------------------------------------------------------------------------ manifests


def test_run_key_covers_everything_that_decides_a_verdict() -> None:
    base = manifest.build_manifest(SETTINGS)
    others: list[dict[str, Any]] = [
        *({"seed": make_seed(1)}, {"limit_overrides": {"total_s": 1.0}}),
        *({"exercise": None}, {"exercise": BY_SLUG["causal_weights"]}),
        {"points": {"linear_layer": {"values": 1.0}}},
    ]
    keys = {base.key, *(manifest.build_manifest(replace(SETTINGS, **o)).key for o in others)}
    changed = {"headcheck": "9", "torch": "9", "judge": "9", "plan": "9", "device": "cuda"}
    keys |= {replace(base, **{name: value}).key for name, value in changed.items()}  # type: ignore[arg-type]
    assert len(keys) == 1 + len(others) + len(changed)
    assert manifest.build_manifest(SETTINGS) == base


def test_manifest_round_trips_its_settings() -> None:
    points = {"linear_layer": {"values": 1}}
    chosen = replace(SETTINGS, seed=make_seed(7), limit_overrides={"call_s": 2.0}, points=points)
    told = manifest.decode(manifest.encode(manifest.build_manifest(chosen)))
    assert told.settings == chosen
    with pytest.raises(ManifestError, match="'gone': this version has no such exercise"):
        _ = replace(told, exercise="gone").settings
    with pytest.raises(ManifestError, match="cannot be read"):
        manifest.decode("{}")


POLICY = Policy(
    Deadline(DUE, rate=Amount(percent=10), cut_off_at=DUE + DAY, extensions=(Extension("s1"),)),
    (Group("blue", (Student("s1"), Student("s2"))),),
    rubrics={"rope": Rubric((Criterion("extra", 2.0, bonus=True),), {"ada": {"extra": 0.5}})},
)
EXAM = Feedback(FeedbackLevel.NAME, {"it_runs": FeedbackLevel.CASE}, frozenset({"it_is_right"}))


@pytest.mark.parametrize(("field", "value"), [("policy", POLICY), ("feedback", EXAM)])
def test_what_no_verdict_depends_on_is_kept_and_old_manifests_lack_it(
    field: str, value: object
) -> None:
    told = replace(plan(), **{field: value})  # type: ignore[arg-type]
    assert (told.key, told.verdict_key) == (plan().key, plan().verdict_key)
    assert manifest.decode(manifest.encode(told)) == told
    old = json.loads(manifest.encode(told))
    del old[field]
    assert manifest.decode(json.dumps(old)) == plan()


def test_missing_content_is_equal_for_equal_reasons() -> None:
    assert make_missing_content("a") == make_missing_content("a") != make_missing_content("b")
    assert make_missing_content("a").data is None
