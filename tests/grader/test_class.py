"""A class with everything that can be wrong with a file: the others are graded as if alone."""

import os
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader import run
from headcheck.grader.report.records import Report, SubmissionRecord

SLUG = "simplified_attention"
RIGHT = f"import torch\ndef {SLUG}(x):\n    return torch.softmax(x @ x.T, dim=-1) @ x\n"
NOT_INSTALLED = f"import einsteinium\ndef {SLUG}(x):\n    return einsteinium.attend(x)\n"
FORGED = f"""
import os, struct
def {SLUG}(x):
    head = b'{{"id": 4, "op": "ok"}}'
    os.write(3, struct.pack("<IQ", len(head), 0) + head)
    while True: pass
"""
WRONG = {
    "b_empty.ipynb": ("", "The file is empty"),
    "f_zip.ipynb": ("PK\x03\x04", "zip archive"),
    "g_syntax.py": (RIGHT.replace("(x):", "(x:"), "was never closed"),
    "i_exit.py": (f"import os\ndef {SLUG}(x):\n    os._exit(0)\n", "ended itself"),
    "j_exit.py": (f"import os\nn = os._exit(0)\ndef {SLUG}(x):\n    return n\n", "ended itself"),
    "k_loop.py": (f"def {SLUG}(x):\n    while True: pass\n", "endless loop"),
    "l_none.py": (f"def {SLUG}(x): pass\n", "None (is there a return?)"),
    "n_forged.py": (FORGED, "answered something that was not asked"),
    "o_name.py": (RIGHT.replace("def simplified", "def simplifed"), "did you mean"),
    "p_import.py": (NOT_INSTALLED, "imports `einsteinium`, which is not"),
    "c_link.py": (None, "symbolic link"),
    "d_fifo.py": (None, "no regular file"),
    "h_large.py": (None, "60 MiB"),
}


def message(record: SubmissionRecord) -> str:
    told = [p.message for p in record.properties if p.status not in ("passed", "not_tried")]
    return record.error.message if record.error else told[0]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Right answers between the wrong files, graded in one go."""
    folder: Path = tmp_path_factory.mktemp("class")
    for student in ("a_right", "m_right", "z_right"):
        (folder / f"{student}.py").write_text(RIGHT)
    for name, (text, _) in WRONG.items():
        if text is not None:
            (folder / name).write_text(text)
    (folder / "c_link.py").symlink_to(folder / "a_right.py")
    os.mkfifo(folder / "d_fifo.py")
    (folder / "e_folder.ipynb").mkdir()
    with (folder / "h_large.py").open("wb") as file:
        file.truncate(60 << 20)
    chosen = run.make_settings(BY_SLUG[SLUG], limits={"call_s": 1.0})
    return run.grade_paths([str(folder), str(folder / "nobody.py")], chosen)


def test_rest_of_a_class_is_graded_as_if_alone(report: Report) -> None:
    records = {Path(record.file).name: record for record in report.submissions}
    right = {"a_right.py", "m_right.py", "z_right.py"}
    assert records.keys() == {*WRONG, *right, "nobody.py"}
    assert {name for name, record in records.items() if record.status == "passed"} == right
    assert all(records[name].score == 82 for name in right)
    assert all(records[name].score == 0 for name in WRONG)
    assert run.compute_exit_code(report) == 1

    assert "no such file or folder" in message(records["nobody.py"])
    for name, (_, text) in WRONG.items():
        assert text in message(records[name]), name
