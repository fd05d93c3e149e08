"""Attacks on whose a file is, each as somebody would make it: nobody's work is replaced."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from headcheck.grader.course.intake.gather import Intake, IntakeOptions, gather_submissions
from headcheck.grader.course.intake.layout_detection import AmbiguousLayout
from headcheck.grader.course.intake.roster import Roster, Student, build_roster
from headcheck.grader.reading.submission import SubmissionNotFound
from tests.grader.course.downloads import make_gradescope_metadata, make_zip, write_files

Tree = Mapping[str, "str | bytes | Tree"]
"""what lies there by name; a tree in it is an archive"""
ADA, EVE = "ada's", "eve's"
LATER = "2031-01-01 00:00:00"
FORGED: Tree = {
    "submission_metadata.yml": make_gradescope_metadata([(1, 0, LATER)]),
    "submission_1/a.py": EVE,
}
IN_TIME = [(1, 0, "2026-02-01 10:00:00"), (2, 3, "2026-02-01 11:00:00")]
"""folders, students and times that Gradescope tells, of ada and of eve"""


def files(tree: Tree) -> list[tuple[str, bytes]]:
    return [(name, _bytes(inside)) for name, inside in tree.items()]


def _bytes(inside: "str | bytes | Tree") -> bytes:
    if isinstance(inside, Mapping):
        return make_zip(files(inside))
    return inside if isinstance(inside, bytes) else inside.encode()


@pytest.fixture(params=["folder", "archive"])
def take(request: pytest.FixtureRequest, tmp_path: Path) -> "Take":
    return Take(tmp_path, request.param)


class Take:
    """Takes in a download, as an archive and unpacked."""

    def __init__(self, temporary: Path, kind: str) -> None:
        self.temporary = temporary
        self.kind = kind
        self.intake = Intake((), (), ())

    def __call__(self, tree: Tree, layout: str = "auto", **wanted: object) -> dict[str, list[str]]:
        """What each student is taken to have handed in."""
        path = self.temporary / "class.zip"
        if self.kind == "folder":
            path = write_files(files(tree), self.temporary / "class")
        else:
            path.write_bytes(make_zip(files(tree)))
        with gather_submissions([str(path)], IntakeOptions(layout=layout, **wanted)) as found:  # type: ignore[arg-type]
            self.intake = found
            told: dict[str, list[str]] = {}
            for each in found.submitted_files:
                text = each.submission.path.read_text() if each.submission else each.problem
                told.setdefault(each.student.id, []).append(text)
            return told


# ------------------------------------------------------------------------ in submissions


@pytest.mark.parametrize("packed_in", [False, True])
def test_gradescope_s_metadata_lies_at_the_top(take: Take, packed_in: bool) -> None:
    below = {f"src/{name}": each for name, each in FORGED.items()}
    inside: Tree = {"src.zip": FORGED} if packed_in else below
    times = make_gradescope_metadata(IN_TIME)
    his = {f"submission_2/{name}": each for name, each in inside.items()}
    told = take({"submission_metadata.yml": times, "submission_1/a.py": ADA, **his})
    assert told == {"0030": [ADA], "0033": [EVE]}
    assert any("submission_metadata.yml is 0033's" in each for each in take.intake.conflicts)


@pytest.mark.parametrize("end", ["\u2028", "\u0085", "\x0c", "\n          ", "\r"])
def test_gradescope_metadata_is_not_program_output(take: Take, end: str) -> None:
    forged = make_gradescope_metadata([(1, 0, LATER), (2, 0, LATER)]).decode().replace("\n", end)
    honest = make_gradescope_metadata(IN_TIME).decode()
    printed = f"{honest}  :results:\n    tests:\n    - output: |\n        {forged}\n"
    tree = {"submission_metadata.yml": printed, "submission_1/a.py": ADA, "submission_2/a.py": EVE}
    assert take(tree) == {"0030": [ADA], "0033": [EVE]}


def test_nbgrader_s_submitted_lies_at_the_top(take: Take) -> None:
    honest = {"ada/ps1/a.py": ADA, "ada/ps1/timestamp.txt": "2026-02-01 10:00:00 UTC"}
    forged = {
        "x/ps1/submitted/ada/ps1/a.py": EVE,
        "x/ps1/submitted/ada/ps1/timestamp.txt": f"{LATER} UTC",
    }
    for layout in ("nbgrader", "auto"):
        assert take({**honest, **forged}, layout) == {"ada": [ADA], "x": [EVE]}
    assert take.intake.conflicts[0] == "x/ps1/submitted/ada/ps1/a.py is x's, whatever it says"
    below = {f"submitted/{name}": text for name, text in {**honest, **forged}.items()}
    take.kind = "archive"  # the folder has the other form in it by now
    assert take(below) == {"ada": [ADA], "x": [EVE]}


def test_times_that_count_only_with_nbgrader_are_mentioned(take: Take) -> None:
    tree = {"ada/ps1/a.py": ADA, "ada/ps1/timestamp.txt": LATER, "eve/ps1/a.py": EVE}
    assert take(tree) == {"ada": [ADA], "eve": [EVE]}
    assert take.intake.layouts == ("plain",)
    told = "ada/ps1/timestamp.txt says no time without --layout nbgrader"
    assert take.intake.conflicts == (told,)


@pytest.mark.parametrize(
    "name",
    [
        "Ada Lovelace_101_assignsubmission_file_zz.py",
        "_101_assignsubmission_file_zz.py",
        "x_17_4711_Ada Lovelace_101_assignsubmission_file_zz.py",
        "Ada Lovelace_101_assignsubmission_file_\n.py",
    ],
)
@pytest.mark.parametrize("mark", ["_assignsubmission_file_", "_assignsubmission_file_/"])
def test_moodle_s_mark_is_the_first_in_a_name(take: Take, name: str, mark: str) -> None:
    told = take({f"Ada Lovelace_101{mark}a.py": ADA, f"Eve_104{mark}{name}": EVE})
    assert (take.intake.layouts, told) == (("moodle",), {"101": [ADA], "104": [EVE]})
    if name.startswith("Ada"):
        assert len(take.intake.conflicts) == 1 and "is 104's" in take.intake.conflicts[0]


@pytest.mark.parametrize(
    "name",
    [
        "17_4711_a.py",
        "_17_4711_a.py",
        "LATE_17_4711_a.py",
        "lovelaceada_17_4711_a.py",
        "lovelaceada_LATE_17_4711_a-1.py",
        "a\n.py",
        "Ada Lovelace_101_assignsubmission_file_zz.py",
        "submission_metadata.yml.py",
    ],
)
def test_canvas_s_mark_is_the_first_in_a_name(take: Take, name: str) -> None:
    told = take({"lovelaceada_17_4711_a.py": ADA, f"passwdeve_20_4712_{name}": EVE})
    assert (take.intake.layouts, told) == (("canvas",), {"17": [ADA], "20": [EVE]})
    assert not any(h.late for h in take.intake.submitted_files)
    speaks = name.startswith(("LATE_17", "lovelaceada_"))
    told_apart = [each.endswith("is 20's, whatever it says") for each in take.intake.conflicts]
    assert told_apart == [True] * speaks


@pytest.mark.parametrize(
    "forged",
    [
        FORGED,
        {"ps1/timestamp.txt": f"{LATER} UTC", "ps1/a.py": EVE},
        {"submitted/17/ps1/a.py": EVE},
        {"hw-submissions/hw-17/a.py": EVE},
        {"Ada Lovelace_101_assignsubmission_file_/a.py": EVE},
        {"../lovelaceada_17_4711_a.py": EVE, "a.py": EVE},
        {"//lovelaceada_17_4711_a/a.py": EVE, "a.py": EVE},
        {"..\\lovelaceada_17_4711_a.py": EVE, "a.py": EVE},
    ],
)
def test_one_student_s_archive_decides_nothing_about_the_class(take: Take, forged: Tree) -> None:
    told = take({"lovelaceada_17_4711_a.py": ADA, "passwdeve_20_4712_x.zip": forged})
    assert take.intake.layouts == ("canvas",)
    assert told["17"] == [ADA] and set(told) == {"17", "20"} and EVE in told["20"]


def test_github_s_repositories_lie_below_the_first_folder(take: Take) -> None:
    # eve's user name is made to look like the folder of an assignment
    tree = {
        "hw-submissions/hw-ada/a.py": ADA,
        "hw-submissions/hw-eve-submissions/hw-ada/a.py": EVE,
        "hw-submissions/hw-eve-submissions/hw-eve-ada/a.py": EVE,
    }
    assert take(tree) == {"ada": [ADA], "eve-submissions": [EVE, EVE]}


def test_plain_folder_belongs_to_one_student_at_any_depth(take: Take) -> None:
    tree: Tree = {"ada/a.py": ADA, "eve/ada/a.py": EVE, "zoe.zip": {"ada/a.py": "zoe's"}}
    assert take(tree) == {"ada": [ADA], "eve": [EVE], "zoe": ["zoe's"]}


# ------------------------------------------------------------------------ times that students wrote


@pytest.mark.parametrize("text", [f"{LATER} UTC" + " " * 2000, "0001-01-01 00:00:00 Asia/Tokyo"])
def test_invalid_timestamp_is_ignored(take: Take, text: str) -> None:
    take({"submitted/ada/ps1/a.py": ADA, "submitted/ada/ps1/timestamp.txt": text})
    assert [each.submitted for each in take.intake.submitted_files] == [None]


def test_timestamp_is_read_only_from_a_regular_file(tmp_path: Path) -> None:
    for student in ("ada", "eve"):
        write_files([(f"submitted/{student}/ps1/a.py", b"")], tmp_path)
    os.mkfifo(tmp_path / "submitted/ada/ps1/timestamp.txt")
    (tmp_path / "later.txt").write_text(LATER)
    (tmp_path / "submitted/eve/ps1/timestamp.txt").symlink_to(tmp_path / "later.txt")
    with gather_submissions([str(tmp_path / "submitted")], IntakeOptions()) as found:
        assert [each.submitted for each in found.submitted_files] == [None, None]


# ------------------------------------------------------------------------ whose download it is


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        (
            {"ada_17_4711_a.py": "", "Eve_104_assignsubmission_file_a.py": ""},
            "assignsubmission_file_a.py is as Moodle names it, but ada_17_4711_a.py is as Canvas",
        ),
        ({"ada_17_4711_a.py": "", "eve.py": ""}, "but eve.py is not. Take it out, or name the"),
        ({"submitted/ada/ps1/a.py": "", "eve/a.py": ""}, "nbgrader names it, but eve is not"),
        (
            {"hw-submissions/hw-ada/a.py": "", "eve.zip": {}},
            "GitHub Classroom names it, but eve.zip",
        ),
        (
            {"submission_metadata.yml": "", "ada_17_4711_a.py": ""},
            "Canvas names it, but submission_",
        ),
        ({"class/ada.py": "", "class/eve.py": ""}, "holds nothing but class. If that is the whole"),
        ({"ada.zip": {"a.py": ""}}, "holds nothing but ada.zip. If that is the whole class"),
    ],
)
def test_ambiguous_layout_asks_for_clarification(take: Take, tree: Tree, told: str) -> None:
    with pytest.raises(AmbiguousLayout) as asked:
        take(tree)
    assert told in str(asked.value) and "--layout" in str(asked.value)
    assert take(tree, "plain"), "whoever says it is answered"


def test_unattributed_assignment_asks_for_clarification(take: Take) -> None:
    tree = {"ada/ps1/a.py": ADA, "ada/ps2/a.py": "other", "eve/ps1/a.py": EVE}
    with pytest.raises(AmbiguousLayout, match="add --layout nbgrader or --layout github"):
        take(tree, assignment="ps1")
    assert take(tree, "nbgrader", assignment="ps1") == {"ada": [ADA], "eve": [EVE]}


@pytest.mark.parametrize(
    ("called", "names", "layout", "told"),
    [
        ("submitted", ["ada/ps1/a.py", "eve/ps1/a.py"], "nbgrader", ["ada", "eve"]),
        ("submitted", ["ada.py", "eve.py"], "plain", ["ada", "eve"]),
        ("hw-submissions", ["hw-ada/a.py", "hw-eve/a.py"], "github", ["ada", "eve"]),
        ("hw-submissions", ["ada.py", "eve/a.py"], "plain", ["ada", "eve"]),
        ("hw-submissions", ["ada_17_1_a.py", "eve_20_2_a.py"], "canvas", ["17", "20"]),
    ],
)
def test_folder_name_counts_only_if_its_contents_agree(
    tmp_path: Path, called: str, names: list[str], layout: str, told: list[str]
) -> None:
    path = write_files([(name, b"") for name in names], tmp_path / called)
    with gather_submissions([str(path)], IntakeOptions()) as found:
        assert (found.layouts, [h.student.id for h in found.submitted_files]) == ((layout,), told)


def test_mismatched_layout_is_reported(take: Take) -> None:
    told = "does not fit --layout canvas; choose another one"
    with pytest.raises(SubmissionNotFound, match=told):
        take({"eve.py": "", "x.zip": {}}, "canvas")


def test_folder_around_a_download_is_opened_if_its_system_is_given(take: Take) -> None:
    canvas: Tree = {"a/b/lovelaceada_17_1_a.py": ADA, "a/b/passwdeve_20_2_a.py": EVE}
    assert take(canvas, "canvas") == {"17": [ADA], "20": [EVE]}
    take.kind = "archive"
    times = make_gradescope_metadata([(1, 0, "2026-02-01 10:00:00")])
    tree: Tree = {"x/submission_metadata.yml": times, "x/submission_1/a.py": ADA}
    assert take(tree, "gradescope") == {"0030": [ADA]}
    assert take({"x/submitted/ada/ps1/a.py": ADA}, "nbgrader") == {"ada": [ADA]}


def test_folder_around_a_download_is_never_a_submission(take: Take) -> None:
    """Where metadata is missing or a mark is odd, nobody looks for another one further inside."""
    told = take({f"x/submission_2/{name}": each for name, each in FORGED.items()}, "gradescope")
    why = "no folder of submission_metadata.yml, so its student is not known"
    assert told == {"submission_2": [why]}
    take.kind = "archive"
    odd = "Default group_assignsubmission_file_/Ada_101_assignsubmission_file_a.py"
    with pytest.raises(SubmissionNotFound, match="no submissions"):
        take({odd: EVE}, "moodle")


# ------------------------------------------------------------------------ who is meant


def student(id_: str, name: str = "", *handles: str) -> Student:
    first, _, last = name.partition(" ")
    return Student(id_, name, first, last, handles=handles)


@pytest.mark.parametrize(
    ("known", "tree", "told", "doubt"),
    [
        (  # GitHub's names are everybody's own choice
            build_roster([student("s1", "Ada Lovelace", "ada-l")]),
            {"hw-submissions/hw-ada-l/a.py": ADA, "hw-submissions/hw-adal/a.py": EVE},
            {"s1": [ADA], "adal": [EVE]},
            "",
        ),
        (
            build_roster([student("s1", "Ada Lovelace", "ada-l")]),
            {"hw-submissions/hw-ada-l/a.py": ADA, "hw-submissions/hw-ADA-L/a.py": EVE},
            {"s1": [ADA], "ADA-L (unclear)": [EVE]},
            "ADA-L and ada-l would both be s1: graded as ADA-L (unclear)",
        ),
        (  # two of one name: nobody is guessed, and nobody replaced
            build_roster([student("s1", "Ada Lovelace")]),
            {"lovelaceada_17_1_a.py": ADA, "lovelaceada_20_2_a.py": EVE},
            {"17": [ADA], "20": [EVE]},
            "17 (lovelaceada) and 20 would both be s1: graded as 17",
        ),
        (  # Moodle's numbers are of one assignment, and may be anybody's id
            build_roster([student("101", "Bob Newman"), student("s1", "Ada Lovelace")]),
            {"Ada Lovelace_101_assignsubmission_file_a.py": ADA},
            {"101 (unclear)": [ADA]},
            "101 (Ada Lovelace) is 101 by one id or name and s1 by another",
        ),
        (  # a name that is an id
            build_roster([student("0017", "Ada Lovelace"), student("0020", "Eve Passwd")]),
            {"0017_20_1_a.py": EVE, "lovelaceada_17_2_a.py": ADA},
            {"0017": [ADA], "20": [EVE]},
            "",
        ),
        (  # one number, two names: one of them is a profile's
            Roster(),
            {"lovelaceada_17_1_a.py": ADA, "x_17_20_4712_a.py": EVE},
            {"17": [ADA, EVE]},
            "17 is called lovelaceada and x",
        ),
    ],
)
def test_file_name_never_changes_the_owner(
    take: Take, known: Roster, tree: Tree, told: dict[str, list[str]], doubt: str
) -> None:
    assert take(tree, roster=known) == told
    assert (doubt in take.intake.conflicts[0]) if doubt else take.intake.conflicts == ()
    strangers = [each for each in told if known and each not in {s.id for s in known.students}]
    assert list(take.intake.not_on_roster) == sorted(strangers)


def test_unicode_forms_of_a_name_stay_separate_files(take: Take) -> None:
    take.kind = "archive"  # not every file system tells these apart
    composed, decomposed = "zo\u00eb.py", "zoe\u0308.py"
    assert take({composed: ADA, decomposed: EVE}) == {"zo\u00eb": [ADA], "zoe\u0308": [EVE]}
    told = take({composed: ADA, decomposed: EVE}, roster=build_roster([student("zo\u00eb")]))
    assert told == {"zo\u00eb": [EVE, ADA]}, "the same id, and nothing is replaced"
