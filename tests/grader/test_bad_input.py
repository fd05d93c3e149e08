"""What people hand in: no files, broken notebooks, and oddities that are fine."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.slicing import compute_slice
from headcheck.grader.reading.submission import Submission, SubmissionNotFound, find_submissions
from headcheck.grader.report.records import ErrorRecord, SubmissionRecord
from headcheck.grader.sandbox.limits import Limits
from tests.commands import RIGHT
from tests.grader.conftest import SandboxDriver
from tests.notebooks import read_notebook, write_notebook

SLUG = "simplified_attention"
GradeFile = Callable[..., SubmissionRecord]


@pytest.fixture
def grade_notebook(sandbox: SandboxDriver, tmp_path: Path) -> GradeFile:
    """Grades one file with this content on an exercise that is quickly judged."""

    def grade_file(
        content: str | bytes, name: str = "ada.ipynb", **chosen: Any
    ) -> SubmissionRecord:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        settings = Settings(**{"exercise": BY_SLUG[SLUG], **chosen})
        [record] = grade_file_or_raise(sandbox.server, find_submissions([str(path)])[0], settings)
        return record

    return grade_file


def assert_right(record: SubmissionRecord) -> None:
    assert record.error is None
    assert (record.status, record.score) == ("passed", record.max_score)


def error_of(record: SubmissionRecord) -> ErrorRecord:
    """Why nothing could be judged: in one line, worth nothing, and with no claim tried."""
    assert record.error is not None
    assert (record.score, record.properties) == (0, ())
    assert record.status != "passed"
    assert "\n" not in record.error.message
    return record.error


def first_message(record: SubmissionRecord) -> str:
    return next(p.message for p in record.properties if p.status not in ("passed", "not_tried"))


# ------------------------------------------------------------------------------- paths


def test_missing_path_says_so(tmp_path: Path) -> None:
    with pytest.raises(SubmissionNotFound, match=r"nothing\.ipynb: no such file or folder"):
        find_submissions([str(tmp_path / "nothing.ipynb")])


def test_a_folder_without_submissions_says_so(tmp_path: Path) -> None:
    (tmp_path / "notes.md").touch()
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints" / "ada-checkpoint.ipynb").touch()
    with pytest.raises(
        SubmissionNotFound, match=r"no submissions in this folder; they are \.ipynb and \.py"
    ):
        find_submissions([str(tmp_path)])


def test_files_of_other_kinds_in_a_folder_have_a_record(
    sandbox: SandboxDriver, tmp_path: Path
) -> None:
    for name in ("ada/hw.ipynb.txt", "bob/hw.py", "bob/report.pdf", "eve.pdf", "requirements.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    found = find_submissions([str(tmp_path)])
    names = [str(each.path.relative_to(tmp_path)) for each in found]
    assert names == ["ada/hw.ipynb.txt", "bob/hw.py", "eve.pdf"]
    [record] = grade_file_or_raise(sandbox.server, found[0], Settings())
    assert record.error is not None and record.error.kind == "unreadable"
    assert record.error.message == "ends in .txt: hand it in under the name hw.ipynb"


def test_another_kind_of_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "report.pdf").touch()
    with pytest.raises(
        SubmissionNotFound, match=r"report.pdf: a submission is a \.ipynb or a \.py file"
    ):
        find_submissions([str(tmp_path / "report.pdf")])


def test_a_folder_is_searched_in_order_and_in_depth(tmp_path: Path) -> None:
    for name in ("b/work.py", "a.ipynb", "b/c/deep.PY", "__pycache__/x.py", "b/readme.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [str(s.path.relative_to(tmp_path)) for s in find_submissions([str(tmp_path)])]
    assert found == ["a.ipynb", "b/c/deep.PY", "b/work.py"]


def test_a_name_after_a_colon_picks_a_definition(tmp_path: Path) -> None:
    path = tmp_path / "ada.py"
    path.touch()
    assert find_submissions([f"{path}:Attention"]) == [Submission(path, str(path), "Attention")]
    odd = tmp_path / "week:1.py"
    odd.touch()
    assert find_submissions([str(odd)])[0].name is None
    assert find_submissions([f"{odd}:f"])[0].path == odd


# ------------------------------------------------------------- files that are not files


@pytest.fixture
def strange(tmp_path: Path) -> Callable[[str], Path]:
    """Something that has the name of a notebook and is none."""

    def make(kind: str) -> Path:
        path = tmp_path / "ada.ipynb"
        if kind == "folder":
            path.mkdir()
        elif kind == "FIFO":
            os.mkfifo(path)
        elif kind == "link":
            (tmp_path / "secret.txt").write_bytes(write_notebook(RIGHT))
            path.symlink_to(tmp_path / "secret.txt")
        elif kind == "link to nowhere":
            path.symlink_to(tmp_path / "nowhere")
        elif kind == "link to a device":
            path.symlink_to("/dev/zero")
        elif kind == "60 MB":
            with path.open("wb") as file:
                file.truncate(60 << 20)
        return path

    return make


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("FIFO", "is no regular file"),
        ("link", "is a symbolic link; hand in the file itself"),
        ("link to nowhere", "is a symbolic link; hand in the file itself"),
        ("link to a device", "is a symbolic link; hand in the file itself"),
        ("60 MB", "is 60 MiB large, over the limit of 20 MiB; clear its outputs"),
    ],
)
def test_special_file_is_not_opened(
    sandbox: SandboxDriver, strange: Callable[[str], Path], kind: str, message: str
) -> None:
    [handed_in] = find_submissions([str(strange(kind))])
    [record] = grade_file_or_raise(sandbox.server, handed_in, Settings(exercise=BY_SLUG[SLUG]))
    assert error_of(record) == ErrorRecord("unreadable", message)
    assert record.max_score == 82


def test_a_folder_with_the_name_of_a_notebook_is_a_folder(strange: Callable[[str], Path]) -> None:
    path = strange("folder")
    with pytest.raises(SubmissionNotFound, match="no submissions in this folder"):
        find_submissions([str(path)])
    (path / "inside.py").touch()
    assert [s.path.name for s in find_submissions([str(path.parent)])] == ["inside.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_says_so(sandbox: SandboxDriver, tmp_path: Path) -> None:
    path = tmp_path / "ada.py"
    path.touch(mode=0)
    [record] = grade_file_or_raise(sandbox.server, find_submissions([str(path)])[0], Settings())
    assert error_of(record).message == "cannot be opened: Permission denied"


# ------------------------------------------------------------------------ no notebooks


BROKEN = RIGHT.replace("def simplified_attention(x):", "def simplified_attention(x:")
MISSPELT = RIGHT.replace("simplified_attention", "simplifed_atention")
IMPORTING = "import einsteinium.layers as el\n" + RIGHT.replace("def", "@el.compiled\ndef")
RAISING = "n = 3\nscale = n / 0\n" + RIGHT.replace("(x)", "(x, scale=scale)")
UNUSABLE = [
    ("", "unreadable", None, "The file is empty"),
    (b"PK\x03\x04 and more", "unreadable", None, "a zip archive"),
    (write_notebook("x = 1", BROKEN), "syntax", (2, 3), "'(' was never closed"),
    (write_notebook("x = 1", BROKEN), "syntax", (2, 3), "nothing in this cell can be used"),
    (
        write_notebook("x = 1", MISSPELT),
        "not_found",
        None,
        "there is no `simplified_attention`; did you mean `simplifed_atention`? found in cell 2",
    ),
    (
        write_notebook("x = 1", IMPORTING),
        "import",
        (2, 1),
        "imports `einsteinium`, which is not installed here and not beside the file",
    ),
    (write_notebook(RAISING), "crashed", (1, 2), "could not be loaded: ZeroDivisionError"),
]


@pytest.mark.parametrize(("content", "kind", "place", "message"), UNUSABLE)
def test_unusable_notebook_says_why_and_where(
    grade_notebook: GradeFile,
    content: str | bytes,
    kind: str,
    place: tuple[int, int] | None,
    message: str,
) -> None:
    error = error_of(grade_notebook(content))
    assert (error.kind, error.cell, error.line) == (kind, *(place or (None, None)))
    assert message in error.message


def test_syntax_error_of_a_program_has_a_line_and_no_cell(grade_notebook: GradeFile) -> None:
    error = error_of(grade_notebook(BROKEN, "ada.py"))
    assert (error.kind, error.cell, error.line) == ("syntax", None, 3)


def test_import_missing_in_a_call_is_named(grade_notebook: GradeFile) -> None:
    called = RIGHT.replace("torch.softmax", "el.softmax")
    record = grade_notebook(
        write_notebook("import torch", "import einsteinium.layers as el", called)
    )
    assert (record.status, record.score) == ("crashed", 0)
    message = "imports `einsteinium`, which is not installed here"
    assert message in first_message(record)


def test_variable_left_unset_by_an_error_is_explained_by_it(grade_notebook: GradeFile) -> None:
    raising = "n = 3\nscale = n / 0\n" + RIGHT.replace("x.T", "x.T * scale")
    record = grade_notebook(write_notebook(raising))
    assert (record.status, record.repair) == ("crashed", None), "an operator is no slip"
    assert "ZeroDivisionError: division by zero (cell 1, line 2)" in first_message(record)


def test_endless_loading_is_reported(grade_notebook: GradeFile) -> None:
    endless = "n = 0\nwhile True: n += 1\n" + RIGHT.replace("x.T", "x.T * n")
    record = grade_notebook(write_notebook(endless), limits=Limits(call_s=1))
    assert error_of(record).kind == record.status == "timed_out"
    assert "could not be loaded: took more than 1 s" in error_of(record).message


# ----------------------------------------------------------------- oddities that are fine


AROUND = {
    "magics": ["%matplotlib inline\n!pip install torch\nimport torch", "%%time\n" + RIGHT],
    "more magics": [
        "%%bash\nrm -rf /",
        RIGHT,
        "?torch",
        "torch.nn??",
        "%timeit simplified_attention(1)",
    ],
    "prompts": [">>> 1 + 1\n2", RIGHT],
    "failing cells": ["raise RuntimeError('an early cell fails')", "1 / 0", RIGHT, "assert False"],
    "plots": ["import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()", RIGHT],
    "input": ["x = input('your name? ')", RIGHT],
    "exits": ["import sys\nsys.exit(3)", RIGHT, "quit()"],
    "training loop": [RIGHT, "while True:\n    loss = simplified_attention(model).sum()"],
    "many epochs": [RIGHT, "for epoch in range(10**9):\n    print(epoch)"],
    "defined again": ["def simplified_attention(x): return x", RIGHT],
    "main": [RIGHT, "if __name__ == '__main__':\n    simplified_attention = None"],
    "prints": [RIGHT.replace("    return", "    print('x', x)\n    return")],
    "scripts": ["# привет · שלום · 你好\nשם = 3", RIGHT],
    "annotations": [
        "from __future__ import annotations",
        RIGHT.replace("(x)", "(x: Tensor) -> Tensor"),
    ],
    "CRLF": [RIGHT.replace("\n", "\r\n")],
    "byte-order mark": ["\ufeff" + RIGHT],
    "await": ["await something()", RIGHT],
    "missing imports": ["import einsteinium\nimport matplotlib_of_mine as plt", RIGHT],
    "broken cells": ["def f(:", RIGHT, "return 3", "x = = 2"],
}


@pytest.mark.parametrize("cells", AROUND.values(), ids=AROUND)
def test_code_around_a_right_answer_is_left_out(cells: list[str]) -> None:
    """What the worker executes of a submission is right, and ends."""
    namespace: dict[str, Any] = {"__name__": "submission"}
    for step in compute_slice(read_notebook(*cells), SLUG):
        exec(step.compile(), namespace)
    x = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    torch.testing.assert_close(namespace[SLUG](x), torch.softmax(x @ x.T, dim=-1) @ x)


def test_code_around_a_right_answer_does_not_matter(grade_notebook: GradeFile) -> None:
    answer = RIGHT.replace("    return", "    print('x', x)\n    return")
    cells = ["%matplotlib inline\n!ls", "raise ValueError", "def f(:", "import einsteinium"]
    around = ["import sys\nsys.exit(3)", answer, "while True:\n    pass"]
    assert_right(grade_notebook(write_notebook(*cells, *around)))


NAMES = {
    "capitals": "ADA.PY",
    "scripts": "Ξένια Öz 你.py",
    "right to left": "\u202eypa.py",
    "shell": "a b'c\"d$(e);f.py",
    "dash": "-rf.py",
    "markup": "[bold red]x[bold].ipynb",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_are_taken_as_they_are(tmp_path: Path, name: str) -> None:
    """The attacks in tests/hostile grade such files, and files in odd encodings."""
    (tmp_path / name).touch()
    [found] = find_submissions([str(tmp_path / name)])
    assert found.display_path.endswith(name)
    assert found.student == name.rpartition(".")[0]
