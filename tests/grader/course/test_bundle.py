"""What a student's file imports from their others: gathered, kept, graded again with it."""

import io
import zipfile
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.course import grading, regrading
from headcheck.grader.course.intake.gather import IntakeOptions, gather_submissions
from headcheck.grader.course.store import bundle
from headcheck.grader.course.store.store import open_store
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.siblings import gather_siblings
from headcheck.grader.reading.submission import NO_SIBLINGS, Sibling, Siblings, read_submission

SETTINGS = Settings(exercise=BY_SLUG["simplified_attention"])
MAIN = "from lib.attention import attend\ndef simplified_attention(x):\n    return attend(x)\n"
ATTEND = "import torch\ndef attend(x):\n    return torch.softmax(x @ x.transpose(-2, -1), -1) @ x\n"
WRONG = ATTEND.replace("-1) @ x", "-2) @ x")


def zip_files(**files: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/") + ".py", text)
    return packed.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ada's is right in a folder, zoe's in an archive; bob's is wrong; eve wants to have ada's."""
    folder = tmp_path / "class"
    for student, attend in {"ada": ATTEND, "bob": WRONG}.items():
        (folder / student / "lib").mkdir(parents=True)
        (folder / student / "main.py").write_text(MAIN)
        (folder / student / "lib/attention.py").write_text(attend)
    (folder / "zoe.zip").write_bytes(zip_files(hw__main=MAIN, hw__lib__attention=ATTEND))
    (folder / "eve").mkdir()
    (folder / "eve/main.py").write_text(MAIN.replace("lib.attention", "ada.lib.attention"))
    (folder / "eve/relative.py").write_text(MAIN.replace("lib.att", "..ada.lib.att"))
    return folder


def list_taken(folder: Path, layout: str = "auto") -> dict[str, list[str]]:
    with gather_submissions([str(folder)], IntakeOptions(layout=layout)) as intake:
        return {
            each.file: ["/".join(file.path) for file in gather_siblings(own, data, 1 << 20).files]
            for each in intake.submitted_files
            if (own := each.submission) and (data := read_submission(own, 1 << 20))
        }


def test_a_student_s_own_files_are_taken_and_nobody_else_s(folder: Path) -> None:
    taken = list_taken(folder)
    assert {name: found for name, found in taken.items() if found} == {
        "ada/main.py": ["lib/attention.py"],
        "bob/main.py": ["lib/attention.py"],
        "zoe/hw/main.py": ["hw/lib/attention.py"],
    }
    assert "eve/main.py" in taken and "eve/relative.py" in taken


def test_files_side_by_side_are_grouped_by_their_owner(tmp_path: Path) -> None:
    for name in ("ada_1_7_main.py", "ada_1_8_utils.py", "bob_2_9_main.py", "bob_2_9_other.py"):
        (tmp_path / name).write_text("import utils, other")
    taken = list_taken(tmp_path, "canvas")
    assert taken["ada_1_7_main.py"] == ["utils.py"]
    assert taken["bob_2_9_main.py"] == ["other.py"]


def test_a_verdict_counts_what_came_with_the_file(folder: Path, tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/store.db", create=True) as store:
        with gather_submissions([str(folder)], IntakeOptions()) as intake:
            report = grading.grade(store, intake, SETTINGS, "1", attempts="latest", trusted=False)
        graded = {each.file: each for each in report.submissions}
        assert graded["ada/main.py"].status == graded["zoe/hw/main.py"].status == "passed"
        assert graded["bob/main.py"].status == "failed", "the same file, with another beside it"
        for name in ("eve/main.py", "eve/relative.py"):
            assert graded[name].score == 0
        for student in ("ada", "bob", "eve", "zoe"):
            assert regrading.replay(store, "1", student, trusted=False).same
        assert regrading.regrade(store, "1", SETTINGS, trusted=False).score_changes == []


# ----------------------------------------------------------------------------- bundles

BESIDE = Siblings(
    ("pkg", "main"),
    (Sibling(("pkg", "a.py"), b"x\n"), Sibling(("pkg", "b.py"), b"")),
    (("pkg/c.py", "is too large"),),
    searched=True,
)


@pytest.mark.parametrize("data", [b"import a\n", b"", b"\n\n"])
def test_what_is_packed_is_unpacked(data: bytes) -> None:
    content = bundle.pack(data, "py", BESIDE)
    assert content.data is not None and content.kind == "py+"
    assert bundle.unpack(content.data, content.kind) == bundle.Unpacked(data, "py", BESIDE)
    assert bundle.pack(data, "py", BESIDE) == content


def test_a_file_alone_is_kept_as_it_is() -> None:
    content = bundle.pack(b"x = 1", "ipynb", NO_SIBLINGS)
    assert (content.data, content.kind) == (b"x = 1", "ipynb")


def test_a_file_that_looks_like_a_bundle_is_none() -> None:
    forged = bundle.pack(b"x", "py", BESIDE).data or b""
    content = bundle.pack(forged, "py", NO_SIBLINGS)
    assert bundle.unpack(content.data or b"", content.kind) == bundle.Unpacked(forged, "py")
