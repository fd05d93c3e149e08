"""Names of groups and ids of students are two things: only the course file makes one the other."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headcheck.grader.course import CourseError
from headcheck.grader.course.grouping import assign_groups
from headcheck.grader.course.intake.roster import Roster, Student, build_roster
from headcheck.grader.course.policy import Group, Policy, make_policy
from headcheck.grader.course.remarks import NAMESAKES, describe_policy
from headcheck.grader.course.results import compute_results
from headcheck.grader.course.store.records import GradedFile
from headcheck.grader.report.course_file import BadCourseFile, read_course_file
from headcheck.grader.report.deadlines import Amount, Deadline, Extension
from tests.grader.course.conftest import RunCommand
from tests.grader.course.gradebooks import DAY, DUE, HandIn, read_rows

SLUG = "causal_weights"
GROUPS_CSV = "name,canvas_user_id,login_id,group_name\nMallory,7,mallory,ada\n"


def make_group(name: str, ids: str, team: str = "") -> Group:
    return Group(name, tuple(map(Student, ids.split())), team)


def score(policy: Policy, *files: GradedFile) -> dict[str, tuple[float, str]]:
    found = compute_results(files, policy=policy)
    return {each.student: (each.score, each.group) for each in found}


def tell(policy: Policy, *files: GradedFile, roster: Roster | None = None) -> dict[str, Any]:
    said = describe_policy(policy, files, compute_results(files, policy=policy), roster or Roster())
    return {what: names for what, names in said if names}


# ------------------------------------------------------------------------ work


@pytest.mark.parametrize("name", ["ada", "Ada", "ADA "])
def test_a_group_called_like_a_student_does_not_get_the_work(handed: HandIn, name: str) -> None:
    policy = Policy(groups=(make_group(name, "mallory"),))
    files = [handed("ada", 100), handed("mallory", 50), handed("bob", 50)]
    assert score(policy, *files) == {"ada": (100, ""), "mallory": (50, name), "bob": (50, "")}
    assert tell(policy, *files) == {NAMESAKES: (f"ada (the group {name})",)}


@pytest.mark.parametrize("called", ["Team Blue", "team-blue", "TEAM-BLUE"])
def test_a_user_called_like_a_group_does_not_replace_its_work(handed: HandIn, called: str) -> None:
    policy = Policy(groups=(make_group("Team Blue", "s1 s2"),))
    files = [handed(called, 0), handed("s1"), replace(handed("s2"), content="s1")]
    blue = (100.0, "Team Blue")
    assert score(policy, *files) == {called: (0, ""), "s1": blue, "s2": blue}
    assert tell(policy, *files) == {NAMESAKES: (f"{called} (the group Team Blue)",)}


def test_the_course_file_says_what_is_a_team_s(handed: HandIn) -> None:
    policy = Policy(groups=(make_group("Team Blue", "s1 s2", "team-blue"),))
    files = [handed("team-blue", 50), handed("s1", 100), handed("s3", 100)]
    blue = (50.0, "Team Blue")
    assert score(policy, *files) == {"s1": blue, "s2": blue, "s3": (100, "")}
    assert NAMESAKES not in tell(policy, *files)
    # Letters may differ where only one id can be meant.
    assert score(policy, handed("Team-Blue", 50), *files[1:])["s1"] == blue
    twice = [handed("Team-Blue", 50), handed("TEAM-BLUE", 50)]
    assert score(policy, *twice) == {"Team-Blue": (50, ""), "TEAM-BLUE": (50, "")}


def test_a_team_without_members_keeps_its_row(handed: HandIn) -> None:
    policy = Policy(groups=(make_group("red", "", "team-red"),))
    assert score(policy, handed("team-red", 50)) == {"team-red": (50, "")}
    assert tell(policy, handed("team-red"))["groups"] == ("the group red is empty",)


def test_where_a_system_names_a_person_it_is_no_team(handed: HandIn) -> None:
    policy = Policy(groups=(make_group("blue", "s1", "17"), make_group("red", "s2", "s1")))
    files = [handed("17", 100, name="Eve"), handed("s1", 50)]
    assert score(policy, *files) == {"17": (100, ""), "s1": (50, "blue")}
    assert assign_groups(policy, files).problems == (
        "17 (Eve) is a student, so [teams] cannot give their work to the group blue",
        "s1 (s1) is a student, so [teams] cannot give their work to the group red",
    )


def write_course(folder: Path, text: str) -> Path:
    (folder / "groups.csv").write_text(GROUPS_CSV)
    path = folder / "headcheck.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("known", ["roster", "login", "member"])
def test_a_team_that_is_a_student_is_refused_in_one_line(
    tmp_path: Path, handed: HandIn, known: str
) -> None:
    members = '["mallory"]\ngreen = ["ADA"]' if known == "member" else '["mallory"]'
    path = write_course(tmp_path, f'[groups]\nada = {members}\n[teams]\nada = "ada"\n')
    listed = {"roster": [Student("ada")], "login": [Student("1", login="ada")], "member": []}
    policy = make_policy(read_course_file(path), "w", build_roster(listed[known]))
    line = "ada is a student, so [teams] cannot give their work to the group ada"
    assert policy.refused == (line,)
    files = [handed("ada", 100), handed("mallory", 50)]
    scores = {who: points for who, (points, _) in score(policy, *files).items()}
    assert scores == {"ada": 100.0, "mallory": 50.0}
    assert tell(policy, *files)["groups"] == (line,)


def test_a_team_of_no_group_in_the_file_of_groups_is_told(tmp_path: Path) -> None:
    path = write_course(tmp_path, 'groups = "groups.csv"\n[teams]\nadda = "team-a"\n')
    policy = make_policy(read_course_file(path), "w", Roster())
    assert policy.refused == ("[teams] has adda, but there is no such group",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('teams = "all"', 'a table of groups and ids, as in blue = "team-blue"'),
        ('[groups]\nblue = []\n[teams]\nblu = "x"', "there is no group 'blu'; did you mean 'blue'"),
        ('[teams]\nblue = "x"', "there is no group 'blue'; the file has no groups"),
        ("[groups]\nblue = []\n[teams]\nblue = []", "the id under which the group hands in"),
        ('[groups]\nblue = []\n[teams]\nblue = " "', "the id under which the group hands in"),
        (
            '[groups]\nblue = []\nred = []\n[teams]\nblue = "x"\nred = " x"',
            "is already the id of the group 'blue'",
        ),
    ],
)
def test_teams_that_cannot_be_read_are_a_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadCourseFile, match=r"headcheck\.toml, line") as caught:
        read_course_file(write_course(tmp_path, text))
    assert problem in str(caught.value)


# ------------------------------------------------------------------------ extensions


def test_the_extension_of_a_student_is_not_that_of_a_group(handed: HandIn) -> None:
    deadline = Deadline(DUE, rate=Amount(percent=10), extensions=(Extension("ada", added=2 * DAY),))
    policy = Policy(deadline, (make_group("ada", "mallory"),))
    files = [handed("ada", 100, 1), handed("mallory", 50, 1)]
    assert score(policy, *files) == {"ada": (100, ""), "mallory": (45, "ada")}
    told = "extensions of a student, and not of the group with the same name"
    assert tell(policy, *files)[told] == ("ada",)
    assert told not in tell(policy, files[1])


@pytest.mark.parametrize("listed", [True, False])
def test_a_roster_says_whose_extension_it_is(tmp_path: Path, handed: HandIn, listed: bool) -> None:
    """Whoever hands in, and whoever has not yet."""
    path = write_course(
        tmp_path,
        'groups = "groups.csv"\n[deadlines.w]\ndue = 2026-02-01T18:00:00Z\n'
        'penalty = "10 % per day"\n[deadlines.w.extensions]\nada = "2 days"\n',
    )
    roster = build_roster([Student("mallory"), *[Student("ada")] * listed])
    policy = make_policy(read_course_file(path), "w", roster)
    mallory = (45.0 if listed else 50.0, "ada")
    assert score(policy, handed("mallory", 50, 1)) == {"mallory": mallory}
    both = score(policy, handed("mallory", 50, 1), handed("ada", 100, 1))
    assert both == {"mallory": mallory, "ada": (100.0 if listed else 90.0, "")}


def test_a_team_s_extension_is_its_members(handed: HandIn) -> None:
    longer = Extension("blue", added=2 * DAY)
    deadline = Deadline(DUE, rate=Amount(percent=10), extensions=(longer,))
    policy = Policy(deadline, (make_group("blue", "s1 s2", "blue"),))
    assert score(policy, handed("blue", 100, 1)) == {"s1": (100, "blue"), "s2": (100, "blue")}


# ------------------------------------------------------------------------ commands

SYSTEMS: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "plain": ("class", lambda who: f"{who}.py"),
    "nbgrader": ("submitted", lambda who: f"{who}/ps1/a.py"),
    "github": ("ps1-submissions", lambda who: f"ps1-{who}/a.py"),
}


def hand_in(layout: str, work: Mapping[str, int]) -> tuple[str, ...]:
    folder, place = SYSTEMS[layout]
    for who, points in work.items():
        path = Path(folder) / place(who)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{points} {who}")
    return ("grade", folder, "--layout", layout, "--store", "c.db", "--run", "w")


def export(run_command: RunCommand) -> dict[str, str]:
    out = run_command("export", "w", "--store", "c.db", "--format", "csv")[1]
    return {row["student"]: row["score"] for row in read_rows(out)}


@pytest.mark.parametrize("layout", SYSTEMS)
def test_everybody_has_a_row_and_the_own_points(run_command: RunCommand, layout: str) -> None:
    write_course(Path(), 'groups = "groups.csv"\n')
    command = hand_in(layout, {"ada": 100, "mallory": 50, "bob": 50})
    _, _, said = run_command(*command, "--exercise", SLUG, "--course", "headcheck.toml")
    assert export(run_command) == {"ada": "100", "mallory": "50", "bob": "50"}
    assert f"headcheck: {NAMESAKES}: ada (the group ada)\n" in said
    assert "something else" not in said, "nobody is blamed"
    code, out, _ = run_command("override", "w/ada", "60", "--store", "c.db")
    assert (code, out) == (0, f"w/ada {SLUG}: 100 before, 60 now\n")


@pytest.mark.parametrize(
    "command",
    [
        ("override", "w/team-blue", "60"),
        ("comment", "w/team-blue", "good"),
        ("comment", "w/team-blue", "good", "--exercise", SLUG),
        ("mark", "w/team-blue", "style", "1"),
    ],
)
def test_decisions_about_a_team_are_about_its_members(
    run_command: RunCommand, command: tuple[str, ...]
) -> None:
    write_course(Path(), '[groups]\nblue = ["s1", "s2"]\n[teams]\nblue = "team-blue"\n')
    grade = hand_in("github", {"team-blue": 100, "s3": 50})
    run_command(*grade, "--exercise", SLUG, "--course", "headcheck.toml")
    assert export(run_command) == {"s1": "100", "s2": "100", "s3": "50"}
    told = "w/team-blue: is the id of the group blue; name one of its members: s1, s2"
    with pytest.raises(CourseError) as caught:
        run_command(*command, "--store", "c.db")
    assert str(caught.value) == told
