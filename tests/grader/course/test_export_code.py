"""What tools that compare code get: a Python file for every file that was handed in."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from headcheck.grader.course.export import ExportedFiles, Gradebook, export
from headcheck.grader.course.intake import roster
from headcheck.grader.course.store import bundle
from headcheck.grader.course.store.records import GradedFile
from headcheck.grader.reading.submission import Sibling, Siblings
from tests.grader.course.gradebooks import PEOPLE, UNKNOWN_STUDENT, make_graded_file, read_rows

PLAIN = b"def f(x):\n    return x\n"


def hand_in(
    student: str, data: bytes = PLAIN, kind: str = "py", **more: object
) -> tuple[GradedFile, bundle.Unpacked]:
    about: dict[str, Any] = {"file": f"{student}.{kind}", "kind": kind, **more}
    return make_graded_file(student, **about), bundle.Unpacked(data, kind)


def notebook(*cells: object) -> bytes:
    code = [{"cell_type": "code", "source": each} for each in cells]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": "text"}, *code]}).encode()


def written(*code: tuple[GradedFile, bundle.Unpacked]) -> ExportedFiles:
    return export(Gradebook("week 1", (), roster.build_roster(PEOPLE), code=code), "code")


def read_info(exported: ExportedFiles) -> list[dict[str, str]]:
    return read_rows(exported.files["info.csv"].decode())


def test_a_notebook_becomes_its_code_with_magics_as_comments() -> None:
    cells = ("%time x = 1\n!ls", ["y = 5\n", "  %timeit y\n", "z = y % 2"], "?print", "a\ud800 = 1")
    exported = written(hand_in("ada", notebook(*cells), "ipynb"))
    text = exported.files["ada.py"].decode()
    assert text.startswith("# cell 1\n# %time x = 1\n# !ls\n")
    assert "# cell 2\ny = 5\n#   %timeit y\nz = y % 2\n" in text
    ast.parse(text.replace("\ufffd", ""))


def test_a_module_stays_as_it_is_and_brings_what_it_imports() -> None:
    graded, content = hand_in("ada")
    beside = Siblings(("ada.py",), (Sibling(("utils.py",), b"def g(): pass\n"),))
    both = bundle.Unpacked(content.data, content.kind, beside)
    assert written((graded, both)).files["ada.py"] == PLAIN + b"\ndef g(): pass\n"


def test_info_is_about_people_and_times() -> None:
    told = hand_in("s1", submitted="2026-02-01T10:00:00+00:00", file="=hw.py"), hand_in("s3")
    assert read_info(written(*told)) == [
        {
            "filename": "s1.py", "full_name": "Ada Lovelace", "label": "A",
            "created_at": "2026-02-01T10:00:00+00:00", "handed_in_as": "'=hw.py",
        },
        {
            "filename": "s3.py", "full_name": "'=cmd|'/c calc'!A1", "label": "",
            "created_at": "", "handed_in_as": "s3.py",
        },
    ]  # fmt: skip


def test_every_file_has_a_name_of_its_own_in_the_folder() -> None:
    ids = ["ada", "ada", "ada.2", "ada.2", "ada%2E2", "-rf", "info", UNKNOWN_STUDENT, "a\nb", ".."]
    exported = written(*(hand_in(each, file="../../x\n\x1b.py") for each in ids))
    assert len(exported.files) == len(ids) + 1
    assert [row["filename"] for row in read_info(exported)] == list(exported.files)[:-1]
    for name in exported.files:
        assert Path(name).name == name and name.isprintable()
    assert list(exported.files)[:3] == ["ada.py", "ada.2.py", "ada%2E2.py"]


@pytest.mark.parametrize(
    ("data", "kind", "why"),
    [
        (b"{", "ipynb", "The notebook is not valid JSON"),
        (b'{"cells": []}', "ipynb", "The notebook has no code cells"),
        (b'{"cells":' + b"[" * 100_000, "ipynb", "nested too deeply"),
        (b"", "none", "could not be read when it was graded"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(data: bytes, kind: str, why: str) -> None:
    exported = written(hand_in("kim", data, kind, file="a\x1b[2J"), hand_in("ada"))
    assert list(exported.files) == ["ada.py", "info.csv"]
    assert exported.left_out == ("kim (a\\x1b[2J)",)
    assert why in exported.remarks[0] and exported.remarks[0].isprintable()
