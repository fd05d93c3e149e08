"""Whose each file is: the downloads of the common systems, several attempts, and what is wrong."""

import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headcheck.grader.course.intake.gather import (
    Intake,
    IntakeOptions,
    SubmittedFile,
    gather_submissions,
)
from headcheck.grader.course.intake.roster import Roster, Student, build_roster
from headcheck.grader.reading.submission import SubmissionNotFound, read_submission

CODE = "def f(x):\n    return x\n"
Take = Callable[..., Intake]


@pytest.fixture
def course(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    def made(files: Mapping[str, str], folder: str = "course") -> Path:
        for name, text in files.items():
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path / folder

    return made


Course = Callable[..., Path]


def taken(*paths: Path, **wanted: object) -> Intake:
    with gather_submissions([str(path) for path in paths], IntakeOptions(**wanted)) as found:  # type: ignore[arg-type]
        return found


def zipped(folder: Path) -> Path:
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return target


def ids(intake: Intake) -> list[str]:
    return [each.student.id for each in intake.submitted_files]


def only(intake: Intake) -> SubmittedFile:
    (each,) = intake.submitted_files
    return each


CANVAS = {
    "lovelaceada_17_4711_attention.ipynb": "{}",
    "turingalan_LATE_18_4712_attention-1.ipynb": "{}",
    "o-connor-5-x_19_4713_my_file_7_8_v2.py": CODE,
}
MOODLE = {
    "Ada Lovelace_101_assignsubmission_file_/attention.ipynb": "{}",
    "Émilie du Châtelet_102_assignsubmission_file/deep/attention.py": CODE,
    "Alan_M_Turing_103_assignsubmission_file_attention.py": CODE,
}
GRADESCOPE = {
    "assignment_9_export/submission_metadata.yml": """---
submission_11:
  :submitters:
  - :name: Lovelace, Ada
    :sid: '0017'
    :email: ada@example.org
  :created_at: 2026-02-01 10:00:00.123456789 Z
  :status: processed
  :results:
    tests:
    - output: |
        submission_12:
          :submitters:
          - :sid: '0666'
  :history: []
submission_12:
  :submitters:
  - :name: "Alan \\xE9 Turing"
    :sid:
    :email: alan@example.org
  - :name: 'Conway O''Neil'
    :sid: '0019'
    :email: ~
  :created_at: 2026-02-02 23:00:00 -01:00
""",
    "assignment_9_export/submission_11/attention.ipynb": "{}",
    "assignment_9_export/submission_12/src/attention.py": CODE,
    "assignment_9_export/submission_13/attention.py": CODE,
}
NBGRADER = {
    "submitted/ada/ps1/attention.ipynb": "{}",
    "submitted/ada/ps1/timestamp.txt": "2026-02-01 10:00:00.5 America/Los_Angeles",
    "submitted/alan/ps1/attention.ipynb": "{}",
    "submitted/alan/ps2/attention.ipynb": "{}",
}
GITHUB = {
    "hw-1-submissions/hw-1-ada-l/attention.py": CODE,
    "hw-1-submissions/hw-1-alan/.git/hooks/x.py": CODE,
    "hw-1-submissions/hw-1-alan/src/attention.py": CODE,
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("files", "layout", "expected"),
    [
        (CANVAS, "canvas", ["17", "18", "19"]),
        (MOODLE, "moodle", ["101", "102", "103"]),
        (GRADESCOPE, "gradescope", ["0017", "0019", "alan@example.org", "submission_13"]),
        (NBGRADER, "nbgrader", ["ada", "alan", "alan"]),
        (GITHUB, "github", ["ada-l", "alan"]),
        ({"ada.py": CODE, "alan/attention.py": CODE}, "plain", ["ada", "alan"]),
    ],
)
def test_each_system_is_recognised(
    course: Course, files: Mapping[str, str], layout: str, expected: list[str], packed: bool
) -> None:
    folder = course({f"{name}": text for name, text in files.items()})
    found = taken(zipped(folder) if packed else folder)
    assert (found.layouts, found.unattributed) == ((layout,), ())
    assert ids(found) == sorted(expected)


@pytest.mark.parametrize("time", ["0001-01-01 00:00:00 +14:00", "2026-02-30 10:00:00 Z", "2026"])
def test_a_time_that_is_none_is_unknown(course: Course, time: str) -> None:
    name = "assignment_9_export/submission_metadata.yml"
    text = GRADESCOPE[name].replace("2026-02-02 23:00:00 -01:00", time)
    found = taken(course({**GRADESCOPE, name: text}))
    times = {each.student.id: each.submitted for each in found.submitted_files}
    assert times["0019"] is None and times["0017"] is not None


def test_canvas_says_who_is_late(course: Course) -> None:
    found = taken(course(CANVAS))
    late = [(each.student.name, each.late) for each in found.submitted_files]
    assert late == [("lovelaceada", False), ("turingalan", True), ("o-connor-5-x", False)]


def test_two_downloads_of_canvas_in_one_folder_are_attempts(course: Course) -> None:
    again = {"ada_1_2_hw.py": CODE, "ada_1_3_hw-1.py": CODE, "ada_1_3_hw-2.py": CODE}
    assert only(taken(course(again))).file == "ada_1_3_hw-2.py"
    found = taken(course({}), attempts="best")
    assert [h.attempt for h in found.submitted_files] == [1, 2, 3]


def test_files_that_are_only_called_part_1_and_part_2_are_one_attempt(course: Course) -> None:
    found = taken(course({"ada_1_2_part-1.py": CODE, "ada_1_2_part-2.py": CODE}))
    assert [h.attempt for h in found.submitted_files] == [1, 1]


def test_the_names_of_moodle_are_names_and_its_numbers_are_participants(course: Course) -> None:
    names = [each.student.name for each in taken(course(MOODLE)).submitted_files]
    assert names == ["Ada Lovelace", "Émilie du Châtelet", "Alan_M_Turing"]


def test_a_group_on_gradescope_shares_its_submission(course: Course) -> None:
    found = {h.student.id: h for h in taken(course(GRADESCOPE)).submitted_files}
    assert found["0019"].submission != found["0017"].submission
    assert found["0019"].file == found["alan@example.org"].file
    assert found["0019"].student.name == "Conway O'Neil"
    assert found["alan@example.org"].student.name == "Alan é Turing"
    assert found["0017"].submitted == datetime(2026, 2, 1, 10, 0, 0, 123456, tzinfo=UTC)
    assert found["0019"].submitted == datetime(2026, 2, 3, 0, 0, 0, tzinfo=UTC)
    unknown = found["submission_13"]
    assert "so its student is not known" in unknown.problem and unknown.submission is None


def test_one_assignment_of_nbgrader_is_chosen_by_its_name(course: Course) -> None:
    found = taken(course(NBGRADER), assignment="ps2")
    assert only(found).file == "submitted/alan/ps2/attention.ipynb"
    assert "submitted/ada/ps1/attention.ipynb" in found.unattributed
    inside = taken(course({}) / "submitted", assignment="ps2")
    assert only(inside).student.id == "alan"


def test_repositories_in_any_folder_have_a_common_beginning(course: Course) -> None:
    files = {"hw-1-ada/a.py": CODE, "hw-1-alan/a.py": CODE}
    assert ids(taken(course(files), layout="github")) == ["ada", "alan"]
    alone = course({"hw-1-ada-l/a.py": CODE}, "alone")
    assert ids(taken(alone, layout="github", assignment="hw-1")) == ["ada-l"]


# ------------------------------------------------------------------------ attempts, people


def test_paths_in_their_order_are_attempts(course: Course) -> None:
    monday = course({"ada.py": CODE, "bob.py": CODE}, "monday")
    friday = course({"ada.py": CODE + "# better\n"}, "friday")
    found = taken(monday, friday)
    assert [(h.student.id, h.attempt) for h in found.submitted_files] == [("ada", 2), ("bob", 1)]
    every = taken(monday, friday, attempts="best")
    attempts = [(each.student.id, each.attempt) for each in every.submitted_files]
    assert attempts == [("ada", 1), ("ada", 2), ("bob", 1)]


def test_timestamps_take_precedence_over_path_order(course: Course) -> None:
    early, late = "2026-02-01 10:00:00 UTC", "2026-02-03 10:00:00 UTC"
    first = course({"ada/ps/a.py": CODE, "ada/ps/timestamp.txt": late}, "first")
    second = course({"ada/ps/a.py": CODE, "ada/ps/timestamp.txt": early}, "second")
    kept = only(taken(first, second, layout="nbgrader"))
    assert kept.submitted == datetime(2026, 2, 3, 10, tzinfo=UTC)


def test_folder_given_twice_is_read_once(course: Course) -> None:
    folder = course({"ada.py": CODE})
    assert only(taken(folder, folder, attempts="best")).attempt == 1


PEOPLE = build_roster(
    [
        Student("s1", "Ada Lovelace", "Ada", "Lovelace", handles=("17", "ada-l")),
        Student("s2", "Émilie du Châtelet", "Émilie", "du Châtelet"),
        Student("s3", "Alan Turing", email="alan@example.org"),
        Student("s4", "Alan Turing"),
    ]
)


def test_roster_maps_ids_of_any_system(course: Course) -> None:
    assert ids(taken(course(CANVAS, "c"), roster=PEOPLE)) == ["18", "19", "s1"]
    assert ids(taken(course(GITHUB, "h"), roster=PEOPLE)) == ["alan", "s1"]
    assert "s3" in ids(taken(course(GRADESCOPE, "g"), roster=PEOPLE))
    found = taken(course(MOODLE, "m"), roster=PEOPLE)
    assert ids(found) == ["103", "s1", "s2"]
    assert found.not_on_roster == ("103",)
    assert [h.handle for h in found.submitted_files] == ["103", "101", "102"]


def test_owner_is_never_guessed() -> None:
    assert PEOPLE.match(name="Turing, Alan") is None
    assert PEOPLE.match(name="lovelaceada") is PEOPLE.students[0]
    assert not Roster()


# ------------------------------------------------------------------------ what is wrong


def test_intake_opens_files_safely(course: Course, tmp_path: Path) -> None:
    folder = course({"ada.py": CODE, "notes.pdf": "x"})
    (folder / "bob.py").symlink_to("/etc/passwd")
    (folder / "link").symlink_to(tmp_path, target_is_directory=True)
    with gather_submissions([str(folder)], IntakeOptions()) as found:
        ada, bob, notes = found.submitted_files
        assert notes.submission is None and "(.pdf): hand in the .ipynb" in notes.problem
        assert ada.submission and read_submission(ada.submission, 1000) == CODE.encode()
        assert ada.submission.student == "ada"
        with pytest.raises(Exception, match="symbolic link"):
            read_submission(bob.submission, 1000)  # type: ignore[arg-type]


def test_nobody_who_handed_in_the_wrong_file_is_missing(course: Course) -> None:
    folder = course(
        {
            "ada/hw.ipynb.txt": "{}",
            "bob/hw.py": CODE,
            "bob/report.pdf": "x",
            "eve/onlinetext.html": "<p>x = 1</p>",
            "zoe/requirements.txt": "torch",
            "zoe/data.csv": "1",
        }
    )
    with gather_submissions([str(folder)], IntakeOptions()) as found:
        said = {each.student.id: each.problem for each in found.submitted_files}
    assert said == {
        "ada": "ends in .txt: hand it in under the name hw.ipynb",
        "bob": "",
        "eve": "is no notebook and no module (.html): hand in the .ipynb or .py file",
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere", "no such file or folder"), ("a.txt", "a folder, a .zip"), ("empty", "no subm")],
)
def test_paths_that_lead_to_nothing_are_refused(
    course: Course, tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SubmissionNotFound, match=message):
        taken(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01 00:00:00 UTC",
        "0001-01-01 00:00:00 Asia/Tokyo",
        "1969-12-31 23:59:59 UTC",
        "9999-12-31 23:59:59 America/Los_Angeles",
        "2026-13-01 00:00:00 UTC",
        "2026-02-01 00:00:00 Nowhere/None",
        "yesterday",
        "",
    ],
)
def test_a_time_at_which_nobody_hands_in_is_no_time(course: Course, text: str) -> None:
    found = taken(course({"ada/ps1/a.py": CODE, "ada/ps1/timestamp.txt": text}), layout="nbgrader")
    assert only(found).submitted is None
    assert found.conflicts == ("ada/ps1/timestamp.txt says no time between 1970 and 3000",)


def test_a_timestamp_deeper_down_is_only_a_file(course: Course) -> None:
    files = {"ada/ps1/a.py": CODE, "ada/ps1/x/timestamp.txt": "yesterday"}
    assert taken(course(files), layout="nbgrader").conflicts == ()
