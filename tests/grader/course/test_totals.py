"""Points of a course's own: what changes with them, what stays, and what is judged again."""

import csv
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from headcheck.exercises import BY_SLUG
from headcheck.grader import run as runner
from headcheck.grader.course.policy import Policy
from headcheck.grader.course.results import (
    ExerciseResult,
    compare_results,
    compute_results,
    list_kept_shares,
)
from headcheck.grader.course.store import manifest
from headcheck.grader.course.store.database import begin_write
from headcheck.grader.course.store.records import Mark, Override
from headcheck.grader.course.store.store import open_store
from headcheck.grader.grading.worker_pool import GradedSubmission
from headcheck.grader.report.course_file import BadCourseFile, read_course_file
from headcheck.grader.report.deadlines import Amount, Deadline
from headcheck.grader.report.points import compute_maximum, scale_record
from headcheck.grader.report.rounding import round_sum, split_total
from headcheck.grader.report.rubric import Criterion, Rubric
from tests.commands import RIGHT, WRONG, Command
from tests.grader.course.gradebooks import DUE, HandIn, MakeRecord, read_rows, refuse_to_judge
from tests.grader.course.test_term import (
    ABSENT,
    GROUPS,
    compare_exports,
    load_rows,
    write_course,
    write_download,
    write_groups,
    write_roster,
)
from tests.grader.course.test_term import grade_command as grade

SLUG = "simplified_attention"
EXERCISE = BY_SLUG[SLUG]


def read(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "headcheck.toml"
    path.write_text(content)
    return path


# ------------------------------------------------------------------------ the manifest


@pytest.mark.parametrize(
    "content",
    [
        f"[points.{SLUG}]\nvalues = 20",
        f"round = 1\n[points]\nslip = 30\n[points.{SLUG}]\nvalues = 20.5\nscale = 0",
        "total = 100",
        "",
    ],
)
def test_a_manifest_has_the_keys_that_it_has_in_a_store(tmp_path: Path, content: str) -> None:
    rules = read_course_file(read(tmp_path, content), EXERCISE)
    planned = manifest.build_manifest(runner.make_settings(EXERCISE, rules))
    stored = manifest.decode(manifest.encode(planned))
    assert (stored.key, stored.verdict_key) == (planned.key, planned.verdict_key)
    plain = manifest.build_manifest(runner.make_settings(EXERCISE))
    assert plain.verdict_key == planned.verdict_key, "no verdict depends on points"


# ------------------------------------------------------------------------ a total


@given(
    st.floats(0.01, 1e4).map(round_sum), st.floats(0, 500), st.floats(0, 100), st.floats(0.1, 9.0)
)
def test_parts_add_up_to_the_total(total: float, checks: float, marks: float, bonus: float) -> None:
    marks = marks if marks >= 0.01 else 0.0
    checks = checks if checks >= 0.01 else 0.0
    first, second = split_total(total, checks, marks)
    if checks or marks:
        assert first * checks + second * marks == pytest.approx(total, abs=1e-6)
    assert first * bonus >= 0 and second * bonus >= 0


@pytest.mark.parametrize("total", [100, 10, 33.33, 1])
@pytest.mark.parametrize("slug", ["causal_attention", "kv_cache", SLUG])
def test_every_exercise_has_the_total(tmp_path: Path, slug: str, total: float) -> None:
    content = f"total = {total}\n[points.{slug}]\nvalues = 77\n"
    rules = read_course_file(read(tmp_path, content))
    assert compute_maximum(BY_SLUG[slug], rules.points) == total
    assert compute_maximum(BY_SLUG["linear_layer"], rules.points) == total


def test_a_total_includes_what_people_mark(tmp_path: Path) -> None:
    rubric = f"[rubric.{SLUG}]\nreport = {{ points = 30 }}\nextra = {{ bonus = 2 }}\n"
    own = compute_maximum(EXERCISE, None)
    rules = read_course_file(read(tmp_path, f"total = 50\n{rubric}"), EXERCISE)
    checks = compute_maximum(EXERCISE, rules.points)
    assert checks == round_sum(50 * own / (own + 30))
    assert rules.rubrics[SLUG].scale * 30 == pytest.approx(50 - checks)


@pytest.mark.parametrize("value", ["0", "-1", "true", '"100"', "nan", "1e9", "[100]"])
def test_a_total_that_is_none_is_refused_with_its_line(tmp_path: Path, value: str) -> None:
    with pytest.raises(BadCourseFile, match=r"line 2.*a number of points from 0.01 to 1000000"):
        read_course_file(read(tmp_path, f"round = 1\ntotal = {value}\n"))


def test_a_check_at_home_shows_the_total(headcheck: Command) -> None:
    Path("headcheck.toml").write_text("total = 100\n")
    Path("right.py").write_text(RIGHT)
    Path("wrong.py").write_text(WRONG)
    assert "100 / 100  passed" in headcheck("check", "right.py").out
    assert " / 100  failed" in headcheck("check", "wrong.py").out
    assert "points for" in headcheck("show", SLUG).out


# ------------------------------------------------------------------------ results


LOSES = Deadline(DUE, rate=Amount(points=20.0))
RUBRICS = {"causal_weights": Rubric((Criterion("report", 20.0), Criterion("extra", 5.0, "", True)))}
MARKS = [
    Mark("ada", "causal_weights", criterion, points, "", "w", "prof")
    for criterion, points in (("report", 15.0), ("extra", 5.0))
]


def compute(handed: HandIn, **more: Any) -> dict[str, ExerciseResult]:
    """Half of the points on time; all points an hour late; half, decided as 30 of 120."""
    decided = Override("w", "cyd", "causal_weights", 30.0, "", "prof", "", 120.0)
    files = [handed("ada", 50), handed("bob", days=1 / 24), handed("cyd", 50)]
    about = {"marks": MARKS, "policy": Policy(LOSES, rubrics=RUBRICS), **more}
    found = compute_results(files, {("cyd", "causal_weights"): decided}, **about)
    return {each.student: each for each in found}


def test_what_is_out_of_another_maximum_is_scaled_before_it_is_added_up(handed: HandIn) -> None:
    own, half = compute(handed), compute(handed, out_of=60.0)
    assert [each.max_score for each in own.values()] == [120.0] * 3
    assert [each.max_score for each in half.values()] == [60.0] * 3
    assert own["ada"].score == 50 + 15 + 5 and half["ada"].score == 35.0
    assert (own["bob"].score, own["bob"].calculation) == (80.0, "100 − 20 points late")
    assert (half["bob"].score, half["bob"].calculation) == (40.0, "50 − 10 points late")
    assert (own["cyd"].score, half["cyd"].score) == (30.0, 15.0)
    for each in half.values():
        assert each.record.max_score == 50.0
        assert sum(p.max_points for p in each.record.properties) == pytest.approx(50.0)


@given(out_of=st.floats(0.5, 1000).map(round_sum), step=st.sampled_from([0.01, 0.5, 1.0]))
def test_scaled_scores_are_rounded_once_and_full_points_stay_full(
    handed: HandIn, out_of: float, step: float
) -> None:
    files = [handed("ada", 50), handed("bob")]
    half, full = compute_results(files, policy=Policy(rubrics={}), step=step, out_of=out_of)
    assert full.score == full.max_score == half.max_score == out_of
    assert half.score < out_of
    assert abs(half.score - out_of / 2) <= step / 2 + 1e-9 or half.score + step >= out_of


def test_what_cannot_be_judged_is_out_of_the_same(record: MakeRecord, handed: HandIn) -> None:
    unread = replace(record("eve", 0), properties=(), exercise=None, score=0.0, max_score=0.0)
    found = compute_results([handed("ada", 50), handed("eve", records=(unread,))], out_of=10.0)
    assert [(each.score, each.max_score) for each in found] == [(5.0, 10.0), (0.0, 10.0)]
    assert scale_record(unread, 0.1, 0.01).max_score == 0.0


# ------------------------------------------------------------------------ what a person decided


def test_an_override_keeps_its_share_and_loses_nothing(handed: HandIn) -> None:
    before = list(compute(handed).values())
    after = list(compute(handed, out_of=170.0).values())
    assert after[2].score == 42.5
    assert list_kept_shares(after) == ("cyd 30 of 120, now 42.5 of 170",)
    assert list_kept_shares(before) == ()
    harder = [
        replace(each, record=replace(each.record, score=1.0), judged=1.0) if each.override else each
        for each in before
    ]
    assert compare_results(before, harder) == [], "the verdict does not count"


def test_an_override_without_a_maximum_keeps_its_points(handed: HandIn) -> None:
    old = {("ada", "causal_weights"): Override("w", "ada", "causal_weights", 60.0, "", "prof")}
    half = handed("ada", 50)
    [ada] = compute_results([half], old)
    assert (ada.score, list_kept_shares([ada])) == (60.0, ())
    doubled = scale_record(half.records[0], 2.0, 0.01)
    [ada] = compute_results([replace(half, records=(doubled,))], old)
    assert (ada.score, ada.max_score) == (60.0, 200.0)


# ------------------------------------------------------------------------ a class of forty

CHANGES = {
    "other points": ("", f"[points.{SLUG}]\nvalues = 60\nprecision = 0\n"),
    "another step": ("round = 2.5\n", f"[points.{SLUG}]\nvalues = 61\n"),
    "a total": ("total = 100\n", ""),
    "a small total": ("total = 10\nround = 0.5\n", f"[points.{SLUG}]\nvalues = 20\n"),
}


def change(top: str, bottom: str) -> None:
    write_course()
    rest = Path("headcheck.toml").read_text()
    Path("headcheck.toml").write_text(f"{top}{rest}{bottom}")


REGRADE = ("regrade", "week-1", "--store", "c.db", "--course", "headcheck.toml")
EXPORT = ("export", "week-1", "--store", "c.db", "--roster", "roster.csv", "--format")


def mark_everybody(headcheck: Command) -> None:
    headcheck("export", "week-1", "--store", "c.db", "--format", "marks", "--out", "marks.csv")
    rows = read_rows(Path("marks.csv").read_text(encoding="utf-8"))
    chance = random.Random(0)
    with Path("marks.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "report": chance.choice("0123456789")} for row in rows)
    assert headcheck("mark", "week-1", "--from", "marks.csv", "--store", "c.db").code == 0


def test_points_change_for_a_class_and_nothing_is_judged_again(
    headcheck: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    change("", f"[points.{SLUG}]\nvalues = 40\n")
    write_groups(GROUPS)
    write_roster()
    write_download("week-1", 0)
    judged = count_judged(monkeypatch)
    ran = headcheck(*grade("week-1"))
    assert f"handed in nothing: {', '.join(sorted(ABSENT))}" in ran.err
    assert len(judged) == 3, "equal bytes are judged once"
    monkeypatch.setattr(runner, "grade_with_progress", refuse_to_judge)
    mark_everybody(headcheck)
    assert headcheck("override", "week-1/s30", "60", "--store", "c.db").code == 0
    share = 60 / float(load_rows(headcheck, "week-1")["s30"]["max_score"])
    for number, texts in enumerate(CHANGES.values()):
        change(*texts)
        before = load_rows(headcheck, "week-1")
        shown = headcheck(*REGRADE, "--diff")
        assert load_rows(headcheck, "week-1") == before, "it is only shown"
        ran = headcheck(*REGRADE)
        assert ran.out.replace(" gain", " would gain").replace(" lose", " would lose") == shown.out
        assert "s30" not in ran.out and "s30 60 of" in ran.err
        rows = load_rows(headcheck, "week-1")
        [most] = {float(row["max_score"]) for row in rows.values()}
        assert most in (100.0, 10.0) or number < 2
        assert float(rows["s30"]["score"]) == pytest.approx(share * most, abs=0.005)
        assert rows["s27"]["score"] == f"{most:g}", "excused, and right"
        compare_pages(headcheck, rows, most, name=f"{number}")
    compare_exports(headcheck, "week-1", 20.0, "--out-of", "20", name="scaled")


def count_judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are judged from now on."""
    judged, grade_all = list[str](), runner.grade_with_progress

    def counting(*arguments: object) -> Iterator[GradedSubmission]:
        for file, records in grade_all(*arguments):  # type: ignore[arg-type]  # as they came
            judged.append(file.display_path)
            yield file, records

    monkeypatch.setattr(runner, "grade_with_progress", counting)
    return judged


def compare_pages(
    headcheck: Command, rows: Mapping[str, Mapping[str, str]], most: float, name: str
) -> None:
    """Every format and the dashboard have the points of the table."""
    compare_exports(headcheck, "week-1", most, name=name)
    shown = ("dashboard", "week-1", "--store", "c.db", "--out", f"pages-{name}")
    assert headcheck(*shown).code == 0
    page = Path(f"pages-{name}", "index.html").read_text()
    assert all(f"{row['score']} / {row['max_score']}" in page for row in rows.values())


# ------------------------------------------------------------------------ sheets


GRADE_CLASS = (
    *("grade", "class", "--layout", "plain", "--store", "c.db"),
    *("--run", "w", "--exercise", SLUG),
)
WORKSHEET = (
    "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Feedback comments\n"
    "Participant 1,A B,ada@x.org,,,{most},\n"
)


def test_a_worksheet_with_another_maximum_is_told_and_can_be_filled(headcheck: Command) -> None:
    Path("class").mkdir()
    Path("class/ada.py").write_text(RIGHT)
    Path("roster.csv").write_text("student_id,email\nada,ada@x.org\n")
    headcheck(*GRADE_CLASS)
    own = compute_maximum(EXERCISE, None)
    export = (EXPORT[0], "w", *EXPORT[2:], "moodle-worksheet", "--into", "sheet.csv")
    Path("sheet.csv").write_text(WORKSHEET.format(most="50.00"))
    ran = headcheck(*export)
    assert ran.code == 2
    assert f"ada has {own:g} points, and the sheet allows 50: scale the points" in ran.err
    assert "--out-of 50" in ran.err
    ran = headcheck(*export, "--out-of", "50")
    assert (ran.code, ran.err) == (0, "") and ",50,50.00," in ran.out
    Path("sheet.csv").write_text(WORKSHEET.format(most="400.00"))
    ran = headcheck(*export)
    assert ran.code == 0
    remark = f"the sheet has a maximum of 400 points, and the run one of {own:g}: --out-of 400"
    assert remark in ran.err
    for wrong in ("0", "-5", "much"):
        assert headcheck(*export, "--out-of", wrong).code == 2


def test_verdicts_under_a_key_of_an_earlier_version_are_found(
    headcheck: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same manifest may have had another key, when its numbers were written differently."""
    Path("class").mkdir()
    Path("class/ada.py").write_text(WRONG)
    assert headcheck(*GRADE_CLASS).code == 1
    with open_store("c.db") as store, begin_write(store.engine) as connection:
        for table in ("runs", "judgements"):
            connection.execute(text(f"UPDATE {table} SET key = 'of an earlier version'"))
    monkeypatch.setattr(runner, "grade_with_progress", refuse_to_judge)
    Path("new.toml").write_text(f"[points.{SLUG}]\nvalues = 20\n")
    regrade = ("regrade", "w", "--store", "c.db")
    assert headcheck(*regrade, "--diff").out == "0 would gain, 0 would lose, 1 stay\n"
    assert headcheck(*regrade, "--course", "new.toml").code == 1
    assert headcheck(*regrade, "--course", "new.toml").code == 0
