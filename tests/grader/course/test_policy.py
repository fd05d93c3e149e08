"""Deadlines and groups in the results of a run: pure, with made-up verdicts."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headcheck.grader.course import dashboard
from headcheck.grader.course.export import Gradebook, export
from headcheck.grader.course.intake.roster import (
    Roster,
    RosterError,
    Student,
    build_roster,
    read_groups,
)
from headcheck.grader.course.policy import NO_POLICY, Group, Policy, make_policy
from headcheck.grader.course.remarks import describe_policy, note_lateness
from headcheck.grader.course.results import (
    ExerciseResult,
    compare_results,
    compute_results,
    format_changes,
)
from headcheck.grader.course.store.records import GradedFile, Override
from headcheck.grader.report.course_file import CourseFile, read_course_file
from headcheck.grader.report.deadlines import Amount, Deadline, Extension
from headcheck.grader.report.groups import AloneRule
from headcheck.grader.report.records import ErrorRecord, build_report
from tests.grader.course.gradebooks import (
    DAY,
    DUE,
    HandIn,
    MakeRecord,
    get_column,
    load_json,
    read_table,
)

DEADLINE = Deadline(DUE, rate=Amount(percent=10), at_most=Amount(percent=50))
EXERCISE = "causal_weights"


def make_policy_of(*groups: tuple[str, str], **more: Any) -> Policy:
    """`("blue", "s1 s2")` is a group of two."""
    made = (Group(name, tuple(map(Student, ids.split()))) for name, ids in groups)
    return Policy(groups=tuple(made), **more)


def results_of(
    policy: Policy, *files: GradedFile, overrides: tuple[Override, ...] = ()
) -> dict[str, ExerciseResult]:
    decided = {(each.student, each.exercise): each for each in overrides}
    return {each.student: each for each in compute_results(files, decided, policy=policy)}


def scores_of(policy: Policy, *files: GradedFile) -> dict[str, float]:
    return {who: each.score for who, each in results_of(policy, *files).items()}


# ------------------------------------------------------------------------ deadlines


def test_late_work_loses_points_and_keeps_its_verdict(handed: HandIn) -> None:
    found = results_of(Policy(DEADLINE), handed("s1"), handed("s2", days=1.5))
    assert (found["s1"].score, found["s1"].late, found["s1"].calculation) == (100.0, False, "")
    late = found["s2"]
    assert (late.score, late.judged, late.taken_off, late.late) == (80.0, 100.0, 20.0, True)
    assert (late.calculation, late.status) == ("100 − 20 % late", "passed")


def test_the_best_attempt_after_penalties_counts(handed: HandIn) -> None:
    first, second = handed("s1", 50, text="one"), handed("s1", 100, 9, "two", attempt=2)
    assert results_of(Policy(DEADLINE), first, second)["s1"].attempt == 1
    timeless = replace(second, submitted=None)
    assert results_of(Policy(DEADLINE), handed("s1", 50), timeless)["s1"].attempt == 2
    assert results_of(NO_POLICY, first, second)["s1"].attempt == 2


def test_an_override_replaces_everything(handed: HandIn) -> None:
    decided = Override("r", "s1", EXERCISE, 77.0, "", "prof")
    [found] = results_of(Policy(DEADLINE), handed("s1", days=2), overrides=(decided,)).values()
    assert (found.score, found.judged, found.calculation, found.graded) == (77.0, 100.0, "", 80.0)


def test_extensions_are_of_students_and_groups(handed: HandIn) -> None:
    granted = (Extension("S1", added=2 * DAY), Extension("blue", added=DAY))
    policy = make_policy_of(("blue", "s2 s3"), deadline=replace(DEADLINE, extensions=granted))
    files = [handed("s1", days=1.5), handed("s2", days=1.5), handed("s4", days=1.5)]
    assert scores_of(policy, *files) == {"s1": 100.0, "s2": 90.0, "s3": 90.0, "s4": 80.0}
    # A member with a longer extension loses less for the same work.
    longer = Extension("s3", added=3 * DAY)
    policy = replace(policy, deadline=replace(DEADLINE, extensions=(*granted, longer)))
    assert scores_of(policy, *files)["s3"] == 100.0


def test_ids_that_differ_in_case_have_extensions_of_their_own(handed: HandIn) -> None:
    deadline = replace(DEADLINE, extensions=(Extension("ada", added=2 * DAY),))
    files = [handed("ada", days=1), handed("Ada", days=1)]
    assert scores_of(make_policy_of(deadline=deadline), *files) == {"ada": 100.0, "Ada": 90.0}
    assert scores_of(make_policy_of(deadline=deadline), files[1]) == {"Ada": 100.0}


def test_a_change_says_what_was_taken_off(handed: HandIn) -> None:
    files = [handed("s1", days=1.5), handed("s2")]
    before, after = (compute_results(files, policy=p) for p in (NO_POLICY, Policy(DEADLINE)))
    changes = compare_results(before, after)
    assert format_changes(changes, 2, would=True).splitlines() == [
        "student  exercise        before  after                 change",
        "s1       causal_weights  100     80 = 100 − 20 % late  -20",
        "0 would gain, 1 would lose, 1 stay",
    ]


def test_penalties_are_rounded_to_the_step_of_the_course(handed: HandIn) -> None:
    policy = Policy(replace(DEADLINE, rate=Amount(percent=3)))
    [found] = compute_results([handed("s1", 50, 1)], policy=policy, step=0.5)
    assert found.score == 48.5


# ------------------------------------------------------------------------ groups


def test_each_member_has_a_result_with_the_own_name(handed: HandIn) -> None:
    policy = make_policy_of(("blue", "s1 s2 s3"), ("red", "s5 s6"))
    found = results_of(policy, handed("s2", 50, name="Ada"), handed("s4"), handed("s9"))
    scores = {who: (each.score, each.group) for who, each in found.items()}
    blue, alone = (50.0, "blue"), (100.0, "")
    assert scores == {**dict.fromkeys(("s1", "s2", "s3"), blue), "s4": alone, "s9": alone}
    assert [found[who].name for who in ("s1", "s2")] == ["s1", "Ada"]
    assert {each.handle for each in found.values()} == {"s1", "s2", "s3", "s4", "s9"}
    assert {found[who].record.student for who in ("s1", "s2")} == {"s1", "s2"}


def test_what_most_members_handed_in_counts_then_the_last_then_the_best(handed: HandIn) -> None:
    blue = make_policy_of(("blue", "s1 s2 s3"))
    same = [handed("s1", 50, text="x"), handed("s2", 50, text="x"), handed("s3", 100, 1)]
    assert set(scores_of(blue, *same).values()) == {50.0}
    last = [handed("s1", 50, 1), handed("s2", 100, 0)]
    assert set(scores_of(blue, *last).values()) == {50.0}
    unknown = [handed("s1", 50, 1), handed("s2", 100, None)]
    assert set(scores_of(blue, *unknown).values()) == {100.0}


def test_a_file_that_cannot_be_judged_counts_only_if_a_group_has_no_other(handed: HandIn) -> None:
    blue, earlier, later = make_policy_of(("blue", "s1 s2")), handed("s1", 50), handed("s2", 0, 1)
    [judged] = later.records
    broken = replace(judged, error=ErrorRecord("unreadable", "The file is empty."))
    unreadable = replace(later, records=(broken,))
    assert set(scores_of(blue, earlier, unreadable).values()) == {50.0}
    assert set(scores_of(blue, unreadable).values()) == {0.0}


@pytest.mark.parametrize("first", [{"days": 0.0}, {"days": None}, {"days": 1}])
def test_handing_in_again_what_is_there_makes_nobody_late(handed: HandIn, first: Any) -> None:
    policy = make_policy_of(("blue", "s1 s2"), deadline=DEADLINE)
    again = [handed("s1", text="x", days=2), handed("s2", text="x", **first)]
    assert set(scores_of(policy, *again).values()) == {90.0 if first["days"] else 100.0}
    marked = [handed("s1", text="x", days=None, late=True), handed("s2", text="x", days=None)]
    assert not any(each.late for each in compute_results(marked, policy=policy))


def test_a_rule_decides_for_members_who_also_handed_in_alone(handed: HandIn) -> None:
    files = [handed("s1", 50, 1), handed("s2", 100), handed("s3", 0, 0.5)]
    expected = {
        AloneRule.GROUP: [50.0, 50.0, 50.0],
        AloneRule.OWN: [50.0, 100.0, 0.0],
        AloneRule.BETTER: [50.0, 100.0, 50.0],
    }
    for rule, scores in expected.items():
        policy = make_policy_of(("blue", "s1 s2 s3"), alone=rule)
        assert list(scores_of(policy, *files).values()) == scores
        said = dict(describe_policy(policy, files, (), Roster()))
        [about] = [names for what, names in said.items() if "something else" in what]
        assert about == ("s2 (blue)", "s3 (blue)")


def test_exercises_of_a_group_may_come_from_several_members(
    handed: HandIn, record: MakeRecord
) -> None:
    other = (record("s2", 50, "self_attention_v2"),)
    files = [handed("s1", 100), handed("s2", records=other), handed("s3", records=())]
    found = compute_results(files, policy=make_policy_of(("blue", "s1 s2 s3")))
    for who in ("s1", "s2", "s3"):
        theirs = {each.exercise: each.score for each in found if each.student == who}
        assert theirs == {EXERCISE: 100.0, "self_attention_v2": 50.0}


def test_a_name_that_somebody_chose_puts_nobody_into_a_group(handed: HandIn) -> None:
    policy = make_policy_of(("blue", "s1 s2"))
    found = results_of(policy, handed("eve", name="s1", days=1), handed("bob", name="blue"))
    assert {who: each.group for who, each in found.items()} == {"eve": "", "bob": ""}


def test_what_is_odd_is_told_and_the_rest_goes_on(handed: HandIn) -> None:
    known = build_roster([Student("s2", "Bob"), Student("s9", "Zoe")])
    granted = tuple(Extension(who, added=DAY) for who in ("s9", "yy", "red"))
    groups = ("blue", "s1 s2"), ("green", "s1 xx s1"), ("red", "")
    policy = make_policy_of(*groups, deadline=replace(DEADLINE, extensions=granted))
    files = [handed("s1", days=1), handed("s3", days=None, late=True), handed("s4", days=None)]
    found = compute_results(files, policy=policy)
    said = [each for each in describe_policy(policy, files, found, known) if each[1]]
    assert said == [
        ("groups", ("s1 is in two groups, blue and green: blue counts",)),
        ("groups", ("the group red is empty",)),
        ("in a group, but on no roster, and nobody handed in as", ("xx",)),
        ("extensions for nobody that is known", ("yy",)),
        ("late", ("s1 100 − 10 % late", "s2 100 − 10 % late")),
        ("marked as late, but at no known time, so nothing is taken off", ("s3",)),
        ("handed in at no known time, so not late", ("s4",)),
    ]
    groups_of = {each.student: each.group for each in found}
    assert groups_of == {"s1": "blue", "s2": "blue", "s3": "", "s4": ""}


def test_a_report_says_what_late_work_lost(handed: HandIn) -> None:
    policy = make_policy_of(("blue", "s1 s2"), deadline=DEADLINE)
    late, on_time = handed("s1", days=1), handed("s3")
    report = build_report([*late.records, *on_time.records])
    noted = note_lateness(report, compute_results([late, on_time], policy=policy))
    told = [[n.message for n in each.notes if n.kind == "late"] for each in noted.submissions]
    assert told == [["100 − 10 % late: 90 points"], []]


# ------------------------------------------------------------------------ files of systems

CANVAS = (
    "name,canvas_user_id,user_id,login_id,sections,group_name,canvas_group_id,group_id\n"
    "Ada,17,s1,ada,A,Blue,4,\nAlan,18,s2,alan,A,Blue,4,\nEmmy,19,s3,emmy,A,,,\n"
)
MOODLE = (
    'First name,Last name,Email address,Groups\nAda,L,ada@x.org,"Blue, Tutorial 1"\n'
    "Alan,T,alan@x.org,Blue\nEmmy,N,emmy@x.org,\n"
)
GITHUB = (
    "assignment_name,github_username,roster_identifier,points_available,group_name\n"
    "hw,ada-l,s1,10,blue\nhw,alan-t,s2,10,blue\n"
)


@pytest.mark.parametrize(
    ("text", "name", "ids"),
    [
        (CANVAS, "Blue", ["s1", "s2"]),
        (MOODLE, "Blue", ["ada@x.org", "alan@x.org"]),
        (GITHUB, "blue", ["s1", "s2"]),
        ("email;Team\na@x;Blue\n", "Blue", ["a@x"]),
    ],
)
def test_groups_are_read_from_files_of_systems(
    tmp_path: Path, text: str, name: str, ids: list[str]
) -> None:
    (tmp_path / "groups.csv").write_text(text)
    groups = read_groups(tmp_path / "groups.csv")
    assert [each.id for each in groups[name]] == ids
    assert set(groups) <= {name, "Tutorial 1"}


def test_ids_of_one_system_are_those_of_another_by_the_roster(
    tmp_path: Path, handed: HandIn
) -> None:
    (tmp_path / "groups.csv").write_text(CANVAS)
    path = tmp_path / "headcheck.toml"
    path.write_text(
        'groups = "groups.csv"\n[deadlines.w]\ndue = 2026-02-01T18:00:00Z\n'
        'penalty = "10 % per day"\n[deadlines.w.extensions]\n"Ada L" = "2 days"\n'
    )
    known = build_roster([Student("101", "Ada L", handles=("s1",)), Student("102", login="alan")])
    policy = make_policy(read_course_file(path), "w", known)
    assert [[each.id for each in group.members] for group in policy.groups] == [["101", "102"]]
    assert scores_of(policy, handed("102", days=1)) == {"101": 100.0, "102": 90.0}
    # Without a roster, the numbers of Canvas are those of its downloads.
    policy = make_policy(read_course_file(path), "other", Roster())
    assert scores_of(policy, handed("17", days=1)) == {"17": 100.0, "s2": 100.0}


def test_a_file_without_groups_is_refused(tmp_path: Path) -> None:
    (tmp_path / "groups.csv").write_text("email,colour\na,b\n")
    problem = "no column for the group; its headers are email, colour. Name one"
    with pytest.raises(RosterError, match=problem):
        read_groups(tmp_path / "groups.csv")
    (tmp_path / "groups.csv").write_text("who,group_name\na,b\n")
    with pytest.raises(RosterError, match="no column for an id"):
        read_groups(tmp_path / "groups.csv")


@pytest.mark.parametrize(
    ("path", "problem"), [("/dev/zero", "is larger than 64 MiB"), ("a\0b", "is no name of a file")]
)
def test_a_file_without_an_end_or_a_name_is_refused(path: str, problem: str) -> None:
    with pytest.raises(RosterError, match=problem):
        read_groups(Path(path))


def test_weights_are_of_students_by_any_id_and_of_nobody_are_told(
    tmp_path: Path, handed: HandIn
) -> None:
    path = tmp_path / "headcheck.toml"
    criteria = f"[rubric.{EXERCISE}]\nstyle = {{ points = 4 }}\n[weights.{EXERCISE}]\n"
    path.write_text(f"{criteria}S17 = {{ style = 0 }}\nyy = {{ style = 0 }}\n")
    policy = make_policy(read_course_file(path), "w", build_roster([Student("s1", login="s17")]))
    files = [handed("s1")]
    [found] = compute_results(files, policy=policy)
    assert (found.score, found.max_score) == (104.0, 104.0)
    alone = make_policy(read_course_file(path), "w", Roster())  # ids match in any case
    assert [each.score for each in compute_results([handed("s17")], policy=alone)] == [104.0]
    exactly = [handed("s17"), handed("S17")]
    scores = {each.student: each.score for each in compute_results(exactly, policy=alone)}
    assert scores == {"s17": 100.0, "S17": 104.0}
    said = dict(describe_policy(policy, files, [found], Roster()))
    assert said["in [weights], and without a result there"] == ("yy",)


def test_an_empty_course_file_has_an_empty_policy() -> None:
    assert make_policy(CourseFile(), "w", Roster()) == NO_POLICY


# ------------------------------------------------------------------------ exports


@pytest.fixture
def book(handed: HandIn) -> Gradebook:
    policy = make_policy_of(("=blue", "s1 s2"), deadline=DEADLINE)
    return Gradebook("w", tuple(compute_results([handed("s1", days=2.0)], policy=policy)))


def test_tables_say_what_was_judged_and_what_was_taken_off(book: Gradebook) -> None:
    rows = read_table(export(book, "csv"))
    for name, values in {
        "student": ["s1", "s2"],
        "score": ["80", "80"],
        "judged": ["100", "100"],
        "taken_off": ["20", "20"],
        "penalty": ["20 % late", "20 % late"],
        "group": ["'=blue", "'=blue"],
        "late": ["yes", "yes"],
        "feedback": ["100 − 20 % late: 80 points"] * 2,
    }.items():
        assert get_column(rows, name) == values
    rows = read_table(export(book, "nbgrader"))
    numbers = [get_column(rows, n)[0] for n in ("raw_score", "late_submission_penalty", "score")]
    assert numbers == ["100", "20", "80"]


def test_the_dashboard_says_the_group_and_what_was_taken_off(book: Gradebook) -> None:
    page = dashboard.render(book, "1.0")
    assert page.count("<td>100 − 20 % late</td>") == page.count("<bdi>=blue</bdi>") == 2
    assert "80 / 100" in page
    hidden = dashboard.render(dashboard.anonymise(book, "salt"), "1.0")
    assert "blue" not in hidden and "100 − 20 % late" in hidden


def test_files_say_what_was_judged_and_what_was_taken_off(book: Gradebook) -> None:
    said = load_json(export(book, "gradescope"))["s2.json"]
    assert (said["score"], said["output"]) == (80.0, "100 − 20 % late: 80 points")
    assert said["extra_data"][EXERCISE]["penalty"] == "20 % late"
    said = load_json(export(book, "prairielearn"))["s1.json"]
    assert (said["score"], said["message"]) == (0.8, "80 of 100 points (100 − 20 % late)")
    files = export(book, "github").files
    tests = json.loads(base64.b64decode(files["s2.result"]))["tests"]
    assert sum(test["score"] for test in tests) == 80.0
    github = files["s1.annotations"].decode()
    assert github == "::notice file=s1/a.py::100 − 20 %25 late: 80 points\n"
    junit = export(book, "junit").files["junit.xml"].decode()
    assert 'name="late" value="100 − 20 % late"' in junit and 'name="group" value="=blue"' in junit
