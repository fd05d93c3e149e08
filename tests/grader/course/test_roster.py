"""Rosters, as the common systems export them."""

from pathlib import Path

import pytest

from headcheck.grader.course.intake.gradescope_metadata import parse_scalar
from headcheck.grader.course.intake.roster import RosterError, Student, normalise_name, read_roster

CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,hw (12)
    Points Possible,,,,,100
"Lovelace, Ada",17,s1,ada@x.org,"A, morning",90
"O""Neil, Conway",18,,conway,B,
"Student, Test",99,,,,
"""
MOODLE = "First name;Surname;ID number;Email address\nAda;Lovelace;s1;ada@x.org\n;;;\n"
NBGRADER = "id,first_name,last_name,email,lms_user_id\nada,Ada,Lovelace,ada@x.org,17\n"
GITHUB = '"identifier","github_username","github_id","name"\n"s1","ada-l","99",""\n'
GRADESCOPE = "Name,SID,Email,Role\nAda Lovelace,s1,ada@x.org,Student\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "roster.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (
            CANVAS,
            Student(
                "s1", "Ada Lovelace", "Ada", "Lovelace", login="ada@x.org",
                section="A, morning", handles=("17",),
            ),
        ),
        (MOODLE, Student("s1", "", "Ada", "Lovelace", "ada@x.org")),
        (NBGRADER, Student("ada", "", "Ada", "Lovelace", "ada@x.org", handles=("17",))),
        (GITHUB, Student("s1", login="ada-l", handles=("ada-l", "99"))),
        (GRADESCOPE, Student("s1", "Ada Lovelace", email="ada@x.org")),
    ],
)  # fmt: skip
def test_every_system_s_export_is_read(tmp_path: Path, text: str, first: Student) -> None:
    assert read_roster(written(tmp_path, text)).students[0] == first


@pytest.mark.parametrize(
    ("header", "word"),
    [
        ("Identifier,Full name,Email address,Grade,Maximum Grade", "Participant "),
        ("ID,Vollständiger Name,E-Mail-Adresse,Bewertung,Bestwertung", "Teilnehmer/in"),
        ("Identificador,Nombre,Correo,Calificación,Calificación máxima", "Participante"),
        ("Tanımlayıcı,Ad,E-posta,Not,En yüksek not", "Katılımcı"),
    ],
)
def test_participants_of_moodle_s_worksheet_are_found_by_number(
    tmp_path: Path, header: str, word: str
) -> None:
    rows = "".join(f'{word}{number},,,-,"140,00"\n' for number in (101, 102))
    roster = read_roster(written(tmp_path, f"{header}\n{rows}"))
    assert [each.id for each in roster.students] == [f"{word}101", f"{word}102"]
    found = roster.match("102")
    assert found is not None and found.id == f"{word}102"


def test_numbers_in_ids_of_other_rosters_are_not_participants(tmp_path: Path) -> None:
    roster = read_roster(written(tmp_path, "id,name\nstudent101,Ada\nstudent102,Alan\n"))
    assert roster.match("102") is None


def test_canvas_s_rows_that_are_no_students_are_left_out(tmp_path: Path) -> None:
    found = read_roster(written(tmp_path, CANVAS))
    names = [(student.id, student.display_name) for student in found.students]
    assert names == [("s1", "Ada Lovelace"), ("18", 'Conway O"Neil')]
    assert found.match("17") == found.match("s1") == found.match("ADA@x.org") == found.students[0]
    assert found.match(name="oneilconway") == found.students[1]
    assert found.match("nobody") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n", "no column for an id; its headers are a, b. Name one of them"),
        ("student_id,name\n", "lists no students"),
        ("student_id,name\n1,a\n1,b\n", "line 3: '1' is there twice"),
        ("course 101\nid,name\n1,a\n", "its first line is not a header: course 101"),
    ],
)
def test_roster_errors_are_reported(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RosterError, match=message):
        read_roster(written(tmp_path, text))


def test_invalid_roster_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    with pytest.raises(RosterError, match="cannot be read: No such file"):
        read_roster(path)
    path.write_bytes("id,name\n1,Émilie\n".encode("latin-1"))
    with pytest.raises(RosterError, match="is not UTF-8"):
        read_roster(path)


def test_names_are_the_same_however_they_are_written() -> None:
    assert normalise_name("Du Châtelet, Émilie") == normalise_name("duchatelet emilie")
    assert normalise_name("李 明") == "李明"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Ada", "Ada"), ("'0017'", "0017"), ("'O''Neil'", "O'Neil"), ("", ""), ("~", ""),
        (r'"a \"b\" \u00e9 \x41 \e"', 'a "b" é A \x1b'), (r'"\q"', r"\q"),
    ],
)  # fmt: skip
def test_scalars_are_read_as_yaml_writes_them(text: str, value: str) -> None:
    assert parse_scalar(text) == value
