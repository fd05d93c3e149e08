"""Deadlines and groups from the command line, in a made-up class; a judge without a sandbox."""

import os
import random
import re
import shlex
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.course import regrading
from headcheck.grader.course.intake.roster import Roster
from headcheck.grader.course.policy import make_policy
from headcheck.grader.course.result_lookup import load_results
from headcheck.grader.course.store.store import open_store
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.course_file import read_course_file
from headcheck.grader.ui.cli import cli
from tests.grader.course.conftest import RunCommand
from tests.grader.course.gradebooks import read_rows
from tests.grader.course.test_course import forked, killed

SLUG = "causal_weights"
WORK = {
    "s1": ("100 blue", "2026-02-01 17:00:00 UTC"),
    "s3": ("100 green", "2026-02-02 12:00:00 UTC"),
    "s4": ("50 alone", "2026-02-01 12:00:00 UTC"),
    "s6": ("100 extended", "2026-02-02 17:00:00 UTC"),
    "s7": ("50 late", "2026-02-02 19:30:00 UTC"),
    "s8": ("100 too late", "2026-03-01 00:00:00 UTC"),
    "s9": ("100 at no time", ""),
}
COURSE = """
[deadlines.week-1]
due = 2026-02-01T18:00:00Z
penalty = "10 % per day"
cut_off = "3 days"
[deadlines.week-1.extensions]
s6 = "2 days"
green = "6 h"
[deadlines.week-2]
due = 2026-02-08T18:00:00Z
[groups]
blue = ["s1", "s2"]
green = ["s3", "s4", "s5"]
"""
GRADE = ("grade", "submitted", "--layout", "nbgrader", "--store", "c.db", "--run", "week-1")
Command = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def headcheck(run_command: RunCommand, tmp_path: Path) -> Command:
    """Runs a command; its exit code, its output, and its lines on standard error but progress."""
    for student, (text, time) in WORK.items():
        folder = tmp_path / "submitted" / student / "ps1"
        folder.mkdir(parents=True)
        (folder / "a.py").write_text(text)
        if time:
            (folder / "timestamp.txt").write_text(time)
    Path("headcheck.toml").write_text(COURSE)

    def ran(*arguments: str) -> tuple[int, str, list[str]]:
        code, out, err = run_command(*arguments)
        return code, out, [line for line in err.splitlines() if line.startswith("headcheck")]

    return ran


def graded(headcheck: Command, *more: str) -> list[str]:
    code, _, said = headcheck(*GRADE, "--exercise", SLUG, "--course", "headcheck.toml", *more)
    assert code == 1
    return said


def exported(headcheck: Command, store: str = "c.db") -> dict[str, tuple[str, str, str]]:
    code, out, _ = headcheck("export", "week-1", "--store", store, "--format", "csv")
    assert code == 0
    rows = read_rows(out)
    return {row["student"]: (row["score"], row["penalty"], row["group"]) for row in rows}


RESULTS = {
    "s1": ("100", "", "blue"),
    "s2": ("100", "", "blue"),
    "s3": ("90", "10 % late", "green"),
    "s4": ("90", "10 % late", "green"),
    "s5": ("90", "10 % late", "green"),
    "s6": ("100", "", ""),
    "s7": ("40", "20 % late", ""),
    "s8": ("0", "100 % too late", ""),
    "s9": ("100", "", ""),
}


def test_a_class_is_graded_by_its_deadline_and_in_groups(
    headcheck: Command, fake_grader: Any
) -> None:
    Path("roster.csv").write_text("student_id\n" + "\n".join(f"s{i}" for i in range(1, 10)))
    said = graded(headcheck, "--roster", "roster.csv")
    assert said == [
        "headcheck: in a group, but handed in something else as well; the group's work counts: "
        "s4 (green)",
        "headcheck: late: s3 100 − 10 % late, s4 100 − 10 % late, s5 100 − 10 % late, "
        "s7 50 − 20 % late, s8 100 − 100 % too late",
        "headcheck: handed in at no known time, so not late: s9",
    ]
    assert exported(headcheck) == RESULTS
    judged = fake_grader.graded_texts
    assert graded(headcheck, "--roster", "roster.csv") == said
    _, out, _ = headcheck(*GRADE, "--exercise", SLUG, "--verbose")
    assert out.count("50 − 20 % late: 40 points") == 1
    assert exported(headcheck) == RESULTS, "without a course file the run keeps what it has"
    assert fake_grader.graded_texts == judged


def test_a_course_file_changed_later_judges_nothing_again(
    headcheck: Command, fake_grader: Any
) -> None:
    graded(headcheck)
    judged = fake_grader.graded_texts
    text = COURSE.replace('"10 % per day"', '"5 points per day"').replace('"s5"]', "]")
    Path("new.toml").write_text('alone = "own"\n' + text)
    regrade = ("regrade", "week-1", "--store", "c.db", "--course", "new.toml")
    code, out, said = headcheck(*regrade, "--diff")
    assert code == 1
    assert [line.split(maxsplit=2) for line in out.splitlines()[1:-1]] == [
        ["s5", SLUG, "90 = 100 − 10 % late  –                         -90"],
        ["s4", SLUG, "90 = 100 − 10 % late  50                        -40"],
        ["s3", SLUG, "90 = 100 − 10 % late  95 = 100 − 5 points late  +5"],
    ]
    assert out.splitlines()[-1] == "1 would gain, 2 would lose, 6 stay"
    assert any("their own work counts: s4 (green)" in line for line in said)
    assert exported(headcheck) == RESULTS, "a preview changes nothing"
    assert headcheck(*regrade)[0] == 1
    found = exported(headcheck)
    assert found["s4"] == ("50", "", "green") and "s5" not in found
    assert found["s3"] == ("95", "5 points late", "green")
    assert headcheck(*regrade)[:2] == (0, "0 gain, 0 lose, 8 stay\n")
    assert fake_grader.graded_texts == judged
    with open_store("c.db") as store:
        assert len(store.list_runs()) == 1


def test_members_without_a_file_are_decided_about_like_others(headcheck: Command) -> None:
    graded(headcheck)
    store = ("--store", "c.db")
    code, out, _ = headcheck("override", "week-1/s5", "70", *store)
    assert (code, out) == (0, f"week-1/s5 {SLUG}: 90 before, 70 now\n")
    assert headcheck("comment", "week-1/s2", "well done", *store)[0] == 0
    found = exported(headcheck)
    assert (found["s5"][0], found["s4"][0]) == ("70", "90")
    out = headcheck("export", "week-1", *store, "--format", "moodle-gradebook")[1]
    assert "s2,,s2,100,well done" in out and 's7,,s7,40,"50 − 20 % late: 40 points\n' in out
    assert headcheck("override", "week-1/s5", "--clear", *store)[1].endswith("70 before, 90 now\n")
    with pytest.raises(Exception, match="nobody with this id has handed in anything"):
        headcheck("comment", "week-1/s0", "who?", *store)


def test_a_run_without_a_deadline_in_the_file_is_told(headcheck: Command) -> None:
    Path("headcheck.toml").write_text(COURSE.replace("week-1", "week-l"))
    assert graded(headcheck) == [
        "headcheck: headcheck.toml has no deadline for the run week-1, so nothing is late; "
        "it has week-l, week-2",
        "headcheck: in a group, but on no roster, and nobody handed in as: s2, s5",
        "headcheck: in a group, but handed in something else as well; the group's work counts: "
        "s4 (green)",
    ]


def test_kills_of_a_regrade_with_a_policy_lose_nothing(
    store_url: str, headcheck: Command, fake_grader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it is killed, everybody has the points of before or after, and it can go on."""
    monkeypatch.setattr("tempfile.tempdir", str(Path.cwd()))
    location = ("--store", store_url)
    headcheck(*GRADE, *location, "--exercise", SLUG)
    headcheck("override", "week-1/s9", "33", *location)
    policy = make_policy(read_course_file(Path("headcheck.toml")), "week-1", Roster())
    settings = Settings(exercise=BY_SLUG[SLUG], limit_overrides={"total_s": 9.0})

    expected = {who: float(score) for who, (score, *_) in RESULTS.items()} | {"s9": 33.0}

    def load() -> dict[str, float]:
        with open_store(store_url) as store:
            return {each.student: each.score for each in load_results(store, "week-1")}

    def regrade() -> None:
        with open_store(store_url) as store:
            seed = store.load_newest_run("week-1").manifest.case_seed
            chosen = replace(settings, seed=seed)
            again = regrading.regrade(store, "week-1", chosen, trusted=False, policy=policy)
            regrading.adopt(store, "week-1", again)

    before, kills = load(), 0
    chance = random.Random(0)
    for _ in range(8):
        if killed(regrade, after=chance.uniform(0.0, 0.15)):
            break
        kills += 1
        found = load()
        assert all(found[who] in (before[who], expected[who]) for who in before)
    regrade()
    assert load() == expected
    assert len(fake_grader.graded_texts) <= 2 * len(WORK) + kills


def test_two_regrades_at_once_give_what_one_of_them_gives(
    store_url: str, headcheck: Command
) -> None:
    location = ("--store", store_url)
    headcheck(*GRADE, *location, "--exercise", SLUG)
    for percent in (10, 30):
        Path(f"{percent}.toml").write_text(COURSE.replace("10 %", f"{percent} %"))
    commands = [("regrade", "week-1", *location, "--course", f"{each}.toml") for each in (10, 30)]

    def regrade(command: tuple[str, ...]) -> None:
        with suppress(SystemExit):
            cli([*command], standalone_mode=False, obj=lambda _: None)

    for pid in [forked(partial(regrade, each)) for each in commands]:
        assert os.waitpid(pid, 0)[1] == 0
    headcheck("runs", *location)  # takes what they wrote
    found = exported(headcheck, store_url)
    assert (found["s7"][0], found["s3"][0]) in (("40", "90"), ("20", "70"))
    with open_store(store_url) as store:
        policy = store.load_newest_run("week-1").manifest.policy
        assert policy.deadline is not None and policy.deadline.rate is not None
        assert (policy.deadline.rate.percent == 10) == (found["s7"][0] == "40")


def test_the_code_of_a_team_is_exported_without_names(headcheck: Command) -> None:
    """What a team handed in has an id that is no student's."""
    rubric = f"[rubric.{SLUG}]\nstyle = {{ points = 4 }}\n"
    groups = '[groups]\nred = ["s3", "s5"]\n[teams]\nred = "s1"\n'
    Path("headcheck.toml").write_text(rubric + groups)
    graded(headcheck)
    to_export = ("export", "week-1", "--store", "c.db", "--anonymous", "--format")
    assert headcheck(*to_export, "code", "--out", "code")[0] == 0
    work = [row["handed_in_by"] for row in read_rows(headcheck(*to_export, "marks")[1])]
    assert len(work) == len(WORK) and len(set(work)) == len(work) - 1
    assert {f"{each}.py" for each in work} <= {each.name for each in Path("code").iterdir()}


def find_blocks(section: str, kind: str) -> list[str]:
    page = (Path(__file__).parents[3] / "docs" / "cohort.md").read_text(encoding="utf-8")
    text = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.M | re.S)


def test_a_term_is_as_the_page_tells_it(headcheck: Command, fake_grader: Any) -> None:
    """Its commands are run with what the later sections write into the course file."""
    sections = ("Groups", "Deadlines", "Hand-marked parts")
    rules = "".join(text for each in sections for text in find_blocks(each, "toml"))
    story, changes = (
        [shlex.split(line)[1:] for line in block.replace("causal_attention", SLUG).splitlines()]
        for block in find_blocks("A term", "bash")
    )
    course = Path("headcheck.toml")
    course.write_text(rules.replace("causal_attention", SLUG), encoding="utf-8")
    write_downloads(["s17", "s19", "s22"])
    for command in story:
        if command[0] == "mark":
            text = Path("marks.csv").read_text(encoding="utf-8-sig")
            text = re.sub(r"(?m)(,[\d-]{17},)", r"\g<1>9", text)  # the report of everybody
            Path("marks.csv").write_text(text, encoding="utf-8")
        assert headcheck(*command)[0] == (command[0] == "grade")
    assert Path("pages", "index.html").exists()
    filled = read_rows(Path("new.csv").read_text())[1:]
    # 50 and 9 points; 10 % late; s17 and s18 had more time; a person decided about s19.
    points = {"s17": "59", "s18": "59", "s19": "60", "s20": "53.1", "s21": "53.1", "s22": "53.1"}
    assert {row["SIS User ID"]: row["week-1"] for row in filled} == points
    course.write_text(course.read_text().replace("s17 =", "s22 ="))
    judged = fake_grader.graded_texts
    shown, done = (headcheck(*command) for command in changes)
    assert (shown[0], done[0]) == (1, 1)
    assert "s22      causal_weights  53.1 = 59 − 10 % late  59" in shown[1]
    assert shown[1].replace("would ", "") == done[1]
    assert fake_grader.graded_texts == judged


def write_downloads(students: list[str]) -> None:
    """What some handed in an hour after the page's deadline, and sheets with everybody."""
    with zipfile.ZipFile("week-1.zip", "w") as archive:
        for who in students:
            archive.writestr(f"submitted/{who}/week-1/a.py", f"50 {who}")
            archive.writestr(f"submitted/{who}/week-1/timestamp.txt", "2026-02-01 18:30:00 UTC")
    everybody = [f"s{i}" for i in range(17, 23)]
    Path("roster.csv").write_text("\n".join(["student_id", *everybody]))
    rows = [f"{who},,{who},," for who in everybody]
    head = ["Student,ID,SIS User ID,SIS Login ID,Section", "    Points Possible,,,,"]
    Path("gradebook.csv").write_text("\n".join([*head, *rows]))
