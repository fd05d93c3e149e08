"""What a course file says of deadlines and groups, and what is wrong with it, with its line."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headcheck.grader.report.deadlines import Amount, Deadline, Extension, Step
from headcheck.grader.report.groups import AloneRule, GroupSettings
from tests.grader.report.test_course_file import assert_refused, read

DUE = datetime(2026, 2, 1, 17, tzinfo=UTC)
HEAD = "[deadlines.week-1]\ndue = 2026-02-01T18:00:00+01:00\n"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def test_a_deadline_may_say_only_when_work_is_due(tmp_path: Path) -> None:
    assert read(tmp_path, HEAD).deadlines == {"week-1": Deadline(DUE)}
    assert read(tmp_path, "").deadlines == {}


def test_a_deadline_has_all_that_a_course_may_ask(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        f'{HEAD}grace = "15 min"\npenalty = "2.5 points per hour"\nat_most = "50 %"\n'
        'cut_off = "1 week"\nmarked_late = "1 point"\n'
        '[deadlines.week-1.extensions]\ns17 = "2 days"\n"team blue" = 2026-02-05T00:00:00Z\n',
    )
    assert found.deadlines["week-1"] == Deadline(
        DUE,
        grace=timedelta(minutes=15),
        rate=Amount(points=2.5),
        every=HOUR,
        at_most=Amount(percent=50),
        cut_off_after=7 * DAY,
        marked_late=Amount(points=1),
        extensions=(
            Extension("s17", added=2 * DAY),
            Extension("team blue", due=datetime(2026, 2, 5, tzinfo=UTC)),
        ),
    )


def test_steps_are_in_the_order_of_their_periods(tmp_path: Path) -> None:
    steps = 'penalty = { "1 day" = "20 points", "30 minutes" = "5%" }\n'
    found = read(tmp_path, f"{HEAD}{steps}cut_off = 2026-02-03T00:00:00Z\n").deadlines["week-1"]
    half = timedelta(minutes=30)
    assert found.steps == (Step(half, Amount(percent=5)), Step(DAY, Amount(points=20)))
    assert found.cut_off_at == datetime(2026, 2, 3, tzinfo=UTC)


def test_groups_are_a_table_or_a_file(tmp_path: Path) -> None:
    groups = '[groups]\nblue = ["s1", " s2"]\n"1" = [17]\nred = []\n'
    told = read(tmp_path, f'alone = "better"\n{groups}')
    members = {"blue": ("s1", "s2"), "1": ("17",), "red": ()}
    assert told.groups == GroupSettings(members, alone=AloneRule.BETTER)
    told = read(tmp_path, 'groups = "groups.csv"')
    assert told.groups == GroupSettings(file=tmp_path / "groups.csv")


STEPS = f"{HEAD}[deadlines.week-1.penalty]\n"
TIME = "a date and time with an offset, as in 2026-02-01T18:00:00+01:00"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("deadlines = 3", "1: `deadlines` must be a table of runs: write [deadlines.RUN], not 3"),
        ("[deadlines]\nweek = 3", "2: `deadlines.week` must be a table with `due`, not 3"),
        ("[deadlines.week]\n", "1: says no `due`: add one, as in due = 2026-02-01T18:00:00+01:00"),
        (
            "[deadlines.w]\ndue = 2026-02-01T18:00:00",
            f"2: `deadlines.w.due` must be {TIME}, not 2026-02-01T18:00:00",
        ),
        ("[deadlines.w]\ndue = 2026-02-01", f"2: `deadlines.w.due` must be {TIME}, not 2026-02-01"),
        ("[deadlines.w]\ndue = 'now'", f"2: `deadlines.w.due` must be {TIME}, not 'now'"),
        ("[deadlines.w]\ndue = 0001-01-01T00:00:00+23:59", f"2: `deadlines.w.due` must be {TIME}"),
        ("[deadlines.w]\ndue = 9999-12-31T23:59:59Z", f"2: `deadlines.w.due` must be {TIME}"),
        (f"{HEAD}graze = '1 h'", "3: there is no key 'graze'; did you mean 'grace'?"),
        (
            f"{HEAD}grace = 3",
            '3: `deadlines.week-1.grace` must be a period, as in "15 min", "12 h"',
        ),
        (f"{HEAD}grace = '{'9' * 400} days'", "3: `deadlines.week-1.grace` must be a period"),
        (f"{HEAD}grace = '-1 h'", "3: `deadlines.week-1.grace` must be a period"),
        (
            f"{HEAD}penalty = 10",
            '3: `deadlines.week-1.penalty` must be "10 % per day", "2 points per hour", or steps',
        ),
        (f"{HEAD}penalty = '10 %'", '3: `deadlines.week-1.penalty` must be "10 % per day"'),
        (f"{HEAD}penalty = {{}}", '3: `deadlines.week-1.penalty` must be "10 % per day"'),
        (f"{HEAD}penalty = '101 % per day'", "3: `deadlines.week-1.penalty` must be an amount"),
        (
            f"{STEPS}'1 h' = 5",
            '4: `deadlines.week-1.penalty.1 h` must be an amount, as in "10 %" or "5 points", no',
        ),
        (f"{STEPS}'soon' = '5 %'", "4: `deadlines.week-1.penalty.soon` must be a period"),
        (f"{STEPS}'1 day' = '5 %'\n'2 h' = '10 %'", "4: takes off no more than '2 h'"),
        (f"{STEPS}'1 day' = '5 %'\n'24 h' = '10 %'", "5: '1 day' and '24 h' are equally long"),
        (f"{HEAD}at_most = '50'", "3: `deadlines.week-1.at_most` must be an amount, as in"),
        (f"{HEAD}cut_off = 'never'", "3: `deadlines.week-1.cut_off` must be a period, as in"),
        (
            f"{HEAD}cut_off = true",
            f'3: `deadlines.week-1.cut_off` must be {TIME}, or a period, as in "2 days", not True',
        ),
        (f"{HEAD}cut_off = 2026-02-01T16:59:00Z", "3: `deadlines.week-1.cut_off` is before `due`"),
        (f"{HEAD}extensions = 3", "3: `deadlines.week-1.extensions` must be a table of students"),
        (
            f"{HEAD}[deadlines.week-1.extensions]\ns1 = '2 day'\ns2 = 2026-01-01T00:00:00Z",
            "5: `deadlines.week-1.extensions.s2` is before `due`",
        ),
        ("groups = 3", '1: `groups` must be a file, as in "groups.csv", or a table of groups'),
        ("[groups]\nblue = 's1'", '2: `groups.blue` must be a list of ids, as in ["s17", "s18"]'),
        ("[groups]\nblue = [true]", '2: True is no id; write a list of ids, as in ["s17", "s18"]'),
        ("[groups]\nblue = ['s1', ' ']", "2: ' ' is no id; write a list of ids"),
        ("[groups]\n'' = ['s1']", "1: a group has no name"),
        ("alone = 'bettr'", "1: there is no rule 'bettr'; did you mean 'better'?"),
        ("alone = 3", "1: there is no rule 3; there are better, group, own"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, written: str, problem: str) -> None:
    assert_refused(tmp_path, written, problem)
