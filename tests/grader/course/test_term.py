"""A course over a term, by the commands alone: whatever happens to points, no verdict changes."""

import csv
import importlib.util
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, select

from headcheck.exercises import BY_SLUG
from headcheck.grader import run as runner
from headcheck.grader.course.export import FORMATS
from headcheck.grader.course.store.schema import judgements, verdicts
from headcheck.grader.course.store.store import open_store
from headcheck.grader.report.points import compute_maximum
from tests.commands import Command
from tests.grader.course.gradebooks import read_rows, read_scores, refuse_to_judge

STUDENTS = [f"s{i:02}" for i in range(1, 41)]
GROUPS = {
    **{f"pair-{i}": [f"s{2 * i - 1:02}", f"s{2 * i:02}"] for i in range(1, 6)},
    **{f"three-{i}": [f"s{3 * i + k:02}" for k in (8, 9, 10)] for i in range(1, 6)},
}
ABSENT = {"s39", "s40"}
"""who never hands in, and is in no group"""

DUE = datetime(2026, 2, 1, 18, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LATE = {
    "s03": 2 * DAY, "s05": HOUR, "s26": DAY, "s28": HOUR / 6, "s29": HOUR, "s30": 3 * DAY,
    "s31": 6 * DAY, "s32": 10 * DAY,
}  # fmt: skip
"""by how much; the group of s03 and s26 have extensions"""
UNTIMED = "s33"

RIGHT = {
    "simplified_attention": (
        "import torch\n\ndef simplified_attention(x):\n"
        "    return torch.softmax(x @ x.T, dim=-1) @ x\n"
    ),
    "linear_layer": "def linear(x, weight, bias):\n    return x @ weight.T + bias\n",
    "causal_weights": (
        "import torch\n\ndef causal_weights(queries, keys):\n"
        "    scores = queries @ keys.T / keys.shape[-1] ** 0.5\n"
        "    future = torch.ones_like(scores).triu(1).bool()\n"
        "    weights = torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)\n"
        "    return weights.clone(), weights\n"
    ),
}
WRONG = {
    "simplified_attention": RIGHT["simplified_attention"].replace("dim=-1", "dim=0"),
    "linear_layer": RIGHT["linear_layer"].replace(" + bias", ""),
    "causal_weights": RIGHT["causal_weights"].replace(" / keys.shape[-1] ** 0.5", ""),
}
SLIP = RIGHT["simplified_attention"].replace("torch.softmax", "torch.sofmax")
WEEKS = {f"week-{i}": slug for i, slug in enumerate(RIGHT, start=1)}

COURSE = """
groups = "groups.csv"
[points]
slip = {slip}
[rubric.simplified_attention]
report = {{ points = 10, text = "It says what was measured." }}
extra = {{ bonus = 2 }}
[weights.simplified_attention]
s27 = {{ report = 0 }}
[deadlines.week-1]
due = 2026-02-01T18:00:00Z
grace = "15 min"
penalty = "{penalty} % per day"
at_most = "50 %"
cut_off = "7 days"
[deadlines.week-1.extensions]
s26 = "2 days"
pair-2 = 2026-02-04T18:00:00Z
[deadlines.week-2]
due = 2026-02-08T18:00:00Z
penalty = "10 % per day"
[deadlines.week-3]
due = 2026-02-15T18:00:00Z
penalty = {{ "1 h" = "5 points", "1 day" = "20 points" }}
"""
STORE = ("--store", "c.db")
RULES = ("--course", "headcheck.toml", "--roster", "roster.csv")


def write_course(*, slip: int = 15, penalty: int = 10) -> None:
    Path("headcheck.toml").write_text(COURSE.format(slip=slip, penalty=penalty))


def write_groups(groups: Mapping[str, list[str]]) -> None:
    rows = [f"{name},{who}" for name, members in groups.items() for who in members]
    Path("groups.csv").write_text("\n".join(["group_name,student_id", *rows, ""]))


def write_roster() -> None:
    people = "".join(f"{who},{who.title()} Doe,{who}@x.org\n" for who in STUDENTS)
    Path("roster.csv").write_text(f"student_id,name,email\n{people}")


def list_work(week: str) -> dict[str, str]:
    """What was handed in: one member's file for each group, with two groups that differ."""
    slug = WEEKS[week]
    silent = {who for members in GROUPS.values() for who in members[1:]} | ABSENT
    work = {who: RIGHT[slug] for who in STUDENTS if who not in silent}
    work |= dict.fromkeys(("s23", "s35"), WRONG[slug])  # s23 hands in for s24 and s25
    work["s02"] = WRONG[slug]  # besides what s01 hands in for both
    work |= dict.fromkeys(GROUPS["three-1"], RIGHT[slug])
    return work | ({"s34": SLIP} if week == "week-1" else {})


def write_download(week: str, number: int) -> None:
    for who, text in list_work(week).items():
        folder = Path(week, "submitted", who, week)
        folder.mkdir(parents=True)
        (folder / "work.py").write_text(text)
        earlier = 2 * HOUR if who == "s02" else HOUR
        at = DUE + number * 7 * DAY + LATE.get(who, -earlier)
        if who != UNTIMED:
            (folder / "timestamp.txt").write_text(f"{at:%Y-%m-%d %H:%M:%S} UTC\n")


def grade_command(week: str) -> tuple[str, ...]:
    where = (week, "--layout", "nbgrader", *STORE, "--run", week, "--exercise", WEEKS[week])
    return ("grade", *where, *RULES, "--jobs", "1", "--seed", "1")


# ------------------------------------------------------------------------ what is looked at


def dump(table: Table) -> list[Any]:
    with open_store("c.db") as store, store.engine.connect() as connection:
        return sorted(map(tuple, connection.execute(select(table))))


def load_verdicts(week: str) -> dict[str, list[tuple[str, str]]]:
    """What every check said of every file."""
    with open_store("c.db") as store:
        return {
            f"{each.student} {each.file}": [
                (p.name, p.status) for record in each.records for p in record.properties
            ]
            for each in store.load_graded_files(week)
        }


def load_rows(headcheck: Command, week: str) -> dict[str, dict[str, str]]:
    ran = headcheck("export", week, *STORE, "--format", "csv", "--roster", "roster.csv")
    assert ran.code == 0
    rows = {row["student"]: row for row in read_rows(ran.out)}
    assert {who for who, row in rows.items() if row["status"] == "not_handed_in"} == ABSENT
    return {who: row for who, row in rows.items() if who not in ABSENT}


def load_scores(headcheck: Command, week: str) -> dict[str, float]:
    return {who: float(row["score"]) for who, row in load_rows(headcheck, week).items()}


# ------------------------------------------------------------------------ the story


def test_a_term(headcheck: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write_course()
    write_groups(GROUPS)
    write_roster()
    for number, week in enumerate(WEEKS):
        write_download(week, number)
    for week in WEEKS:
        assert headcheck(*grade_command(week)).code == 1
    monkeypatch.setattr(runner, "grade_with_progress", refuse_to_judge)
    handed_in = {week: load_verdicts(week) for week in WEEKS}
    check_first_scores(load_rows(headcheck, "week-1"))

    mark_blindly(headcheck)
    check_marked(load_scores(headcheck, "week-1"))
    untouched = dump(verdicts), dump(judgements)
    change_the_rules(headcheck)
    decide(headcheck)
    regroup(headcheck)
    assert {week: load_verdicts(week) for week in WEEKS} == handed_in, "no verdict changed"
    for before, table in zip(untouched, (verdicts, judgements), strict=True):
        assert set(before) <= set(dump(table)), "nor what is stored of it"
    for week in WEEKS:
        export_everything(headcheck, week)


MOST = compute_maximum(BY_SLUG["simplified_attention"], None)


def check_first_scores(rows: Mapping[str, Mapping[str, str]]) -> None:
    """By hand, before anything is marked; nobody but who is excused can have all points yet."""
    assert rows.keys() == set(STUDENTS) - ABSENT
    score = {who: float(row["score"]) for who, row in rows.items()}
    right = {"s01", "s02", "s03", "s04", "s11", "s12", "s26", "s28", "s33", "s36"}
    assert {score[who] for who in right} == {MOST}
    assert score["s27"] == MOST + 10, "excused"
    assert score["s05"] == score["s06"] == score["s29"] == pytest.approx(0.9 * MOST)
    assert [score["s30"], score["s31"]] == pytest.approx([0.7 * MOST, 0.5 * MOST])
    assert (score["s32"], rows["s32"]["penalty"]) == (0.0, "100 % too late")
    assert score["s23"] == score["s24"] == score["s25"] == score["s35"] < MOST
    assert rows["s34"]["status"] == "repaired"
    assert score["s34"] == pytest.approx(0.85 * MOST)
    assert {row["max_score"] for row in rows.values()} == {f"{MOST + 10:g}"}
    assert [rows[who]["group"] for who in ("s02", "s13", "s26")] == ["pair-1", "three-1", ""]


def mark_blindly(headcheck: Command) -> None:
    sheet = ("export", "week-1", *STORE, "--format", "marks", "--anonymous", "--out", "marks.csv")
    assert headcheck(*sheet).code == 0
    text = Path("marks.csv").read_text(encoding="utf-8")
    assert not any(who in text for who in STUDENTS)
    rows = read_rows(text)
    code = ("export", "week-1", *STORE, "--format", "code", "--anonymous", "--out", "code")
    assert headcheck(*code).code == 0
    there = {each.stem for each in Path("code").glob("*.py")}
    work = [row["handed_in_by"] for row in rows]
    assert set(work) <= there and len(set(work)) == len(there) - 3, "all but what counts for nobody"
    assert [who for who, _ in groupby(work)] == list(dict.fromkeys(work)), "side by side"
    with Path("marks.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")  # as some spreadsheets save it
        writer.writeheader()
        writer.writerows({**row, "report": "7,5"} for row in rows)
    ran = headcheck("mark", "week-1", "--from", "marks.csv", *STORE)
    assert ran.out == "week-1: changed 38 marks of 38 students\n"
    bonus = ("mark", "week-1/s35", "extra", "2", *STORE, "--comment", "A good plot.")
    assert headcheck(*bonus).code == 0


def check_marked(score: Mapping[str, float]) -> None:
    assert {score[who] for who in ("s01", "s02", "s26", "s36")} == {MOST + 7.5}
    assert score["s27"] == MOST + 10, "a mark changes nothing for who is excused"
    assert score["s29"] == pytest.approx(0.9 * (MOST + 7.5), abs=0.005)
    assert score["s35"] == score["s24"] + 2
    assert score["s34"] == pytest.approx(0.85 * MOST + 7.5)


def change_the_rules(headcheck: Command) -> None:
    """A slip costs more, and so does late work; first it is only shown."""
    before = load_rows(headcheck, "week-1")
    write_course(slip=50, penalty=20)
    regrade = ("regrade", "week-1", *STORE, *RULES)
    ran = headcheck(*regrade, "--diff")
    assert "0 would gain, 5 would lose, 33 stay" in ran.out
    assert load_rows(headcheck, "week-1") == before
    ran = headcheck(*regrade)
    assert "0 gain, 5 lose, 33 stay" in ran.out
    for week in ("week-2", "week-3"):
        assert headcheck("regrade", week, *STORE, *RULES).out == "0 gain, 0 lose, 38 stay\n"
    score = load_scores(headcheck, "week-1")
    assert score["s34"] == pytest.approx(0.5 * MOST + 7.5)
    assert score["s05"] == score["s29"] == pytest.approx(0.8 * (MOST + 7.5), abs=0.005)
    assert score["s30"] == score["s31"] == pytest.approx(0.5 * (MOST + 7.5), abs=0.005)


def decide(headcheck: Command) -> None:
    assert headcheck("override", "week-1/s30", "60,5", *STORE, "--reason", "oral exam").code == 0
    assert headcheck("comment", "week-1/s32", "Why so late?", *STORE).code == 0
    score = load_scores(headcheck, "week-1")
    assert (score["s30"], score["s32"]) == (60.5, 0.0)


def regroup(headcheck: Command) -> None:
    """One student moves from a group with a wrong answer to one with a right answer."""
    moved = {name: [who for who in members if who != "s25"] for name, members in GROUPS.items()}
    write_groups(moved | {"pair-1": ["s01", "s02", "s25"]})
    for week in WEEKS:
        before, stored = load_scores(headcheck, week), dump(judgements)
        ran = headcheck("regrade", week, *STORE, *RULES)
        assert "1 gain, 0 lose, 37 stay" in ran.out
        after = load_scores(headcheck, week)
        assert {who for who in after if after[who] != before[who]} == {"s25"}
        assert after["s25"] == after["s01"]
        assert dump(judgements) == stored


# ------------------------------------------------------------------------ exports

CANVAS = "Student,ID,SIS User ID,SIS Login ID,Section,old (1)\n    Points Possible,,,,,10\n"
ENGLISH = (
    "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,"
    "Last modified (grade),Feedback comments\n"
)
GERMAN = (
    "ID;Vollständiger Name;E-Mail-Adresse;Status;Bewertung;Bestwertung;"
    "Bewertung kann geändert werden;Zuletzt geändert (Bewertung);Feedback als Kommentar\n"
)


def write_sheets(most: float) -> None:
    """Sheets as systems give them out, with a row for everybody."""
    rows = [(f"{i}", who) for i, who in enumerate(STUDENTS, start=1)]
    canvas = "".join(f'"Doe, {who.title()}",{i},{who},{who},A,5\n' for i, who in rows)
    Path("canvas.csv").write_text(CANVAS + canvas)
    english = "".join(
        f"Participant {i},{who.title()} Doe,{who}@x.org,,,{most:.2f},Yes,-,\n" for i, who in rows
    )
    Path("english.csv").write_text(ENGLISH + english)
    largest = f"{most:.2f}".replace(".", ",")
    german = "".join(
        f"Teilnehmer/in{i};{who.title()} Doe;{who}@x.org;;;{largest};Ja;-;\n" for i, who in rows
    )
    Path("german.csv").write_text(GERMAN + german, encoding="utf-8-sig")


def list_exports() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Formats and their options; those whose packages are installed."""
    for form, about in FORMATS.items():
        missing = about.extra and not importlib.util.find_spec(
            {"parquet": "pyarrow"}.get(about.extra, about.extra)
        )
        if about.contents == "results" and not about.fills and not missing:
            yield form, ()
    yield "canvas", ("--into", "canvas.csv")
    yield "moodle-worksheet", ("--into", "english.csv")
    yield "moodle-worksheet", ("--into", "german.csv")


def compare_exports(headcheck: Command, week: str, most: float, *more: str, name: str) -> None:
    """Every format has the points of the table, with 0 for who handed in nothing."""
    write_sheets(most)
    export = ("export", week, *STORE, "--roster", "roster.csv", *more, "--format")
    table = read_rows(headcheck(*export, "csv").out)
    assert {float(row["max_score"]) for row in table} == {most}
    expected = [float(row["score"]) for row in table]
    assert len(expected) == len(STUDENTS)
    for number, (form, options) in enumerate(list_exports()):
        out = Path(f"{name}-{number}")
        out.mkdir()
        assert headcheck(*export, form, *options, "--out", str(out)).code == 0, form
        files = {each.name: each.read_bytes() for each in out.iterdir()}
        found = read_scores(files, form, week, most)
        there = len(STUDENTS) if FORMATS[form].absent else len(STUDENTS) - len(ABSENT)
        assert len(found) == there, form
        assert sum(found) == pytest.approx(sum(expected), abs=0.005), form
        points, wanted = (sorted(filter(None, each)) for each in (found, expected))
        assert points == pytest.approx(wanted, abs=0.01), form


def export_everything(headcheck: Command, week: str) -> None:
    rows = load_rows(headcheck, week)
    compare_exports(headcheck, week, float(rows["s01"]["max_score"]), name=week)
    assert headcheck("export", week, *STORE, "--format", "code", "--out", f"code-{week}").code == 0
    found = {each.stem for each in Path(f"code-{week}").glob("*.py")}
    assert found == set(list_work(week)), "the code of everybody who handed in"
    out = Path(f"pages-{week}")
    assert headcheck("dashboard", week, *STORE, "--out", str(out)).code == 0
    assert len(list(out.glob("*.html"))) == 1 + len(rows)
