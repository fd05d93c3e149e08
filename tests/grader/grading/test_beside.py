"""Submissions that import files from beside them, from a folder to a record."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.limits import Limits
from tests.grader.conftest import SandboxDriver

Grade = Callable[..., dict[str, SubmissionRecord]]
MAIN = """
from attention import attend
def simplified_attention(x):
    return attend(x)
"""
ATTEND = "import torch\ndef attend(x):\n    return torch.softmax(x @ x.transpose(-2, -1), -1) @ x\n"


@pytest.fixture
def grade(sandbox: SandboxDriver, tmp_path: Path) -> Grade:
    """Gives the records of what a path stands for, by file name."""

    def grade_files(
        files: Mapping[str, str], path: str = "main.py", limits: Limits | None = None
    ) -> dict[str, SubmissionRecord]:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        settings = Settings(BY_SLUG["simplified_attention"], limits=limits or Limits())
        return {
            str(each.path.relative_to(tmp_path)): grade_file_or_raise(
                sandbox.server, each, settings
            )[0]
            for each in find_submissions([str(tmp_path / path)])
        }

    return grade_files


def tell(record: SubmissionRecord) -> str:
    """What is said first."""
    if record.error is not None:
        return record.error.message
    return next((p.message for p in record.properties if p.message), "")


@pytest.mark.parametrize("statement", ["from attention import", "from .attention import"])
def test_what_is_beside_the_file_counts(statement: str, grade: Grade) -> None:
    main = MAIN.replace("from attention import", statement)
    [record] = grade({"main.py": main, "attention.py": ATTEND}).values()
    assert (record.status, record.score) == ("passed", record.max_score), tell(record)


def test_a_mistake_in_it_is_found_and_an_error_located(grade: Grade) -> None:
    wrong = ATTEND.replace("-1) @ x", "-2) @ x")
    [record] = grade({"main.py": MAIN, "attention.py": wrong}).values()
    assert record.status == "failed"
    broken = ATTEND.replace("torch.softmax", "torch.soft_max")
    [record] = grade({"main.py": MAIN, "attention.py": broken}).values()
    assert record.status == "crashed"
    assert "has no attribute 'soft_max' (attention.py, line 3) (line 4)" in tell(record)


def test_a_missing_file_is_told(grade: Grade) -> None:
    [record] = grade({"main.py": MAIN}).values()
    told = "imports `attention`, which is not beside the file; hand it in together with it (line 2)"
    assert told in tell(record)


def test_a_student_imports_nothing_of_another_s(grade: Grade) -> None:
    files = {
        "ada/attention.py": ATTEND,
        "bob/main.py": MAIN,
        "eve/main.py": MAIN.replace("from attention", "from ..ada.attention"),
        "flat.py": MAIN,
        "attention.py": ATTEND,
    }
    records = grade(files, "")
    assert "`attention`, which is not beside the file" in tell(records["bob/main.py"])
    assert "imports from above the folder that was handed in" in tell(records["eve/main.py"])
    assert "`attention`; other files are not taken along here" in tell(records["flat.py"])


@pytest.mark.parametrize(
    "name", ["torch.py", "sitecustomize.py", "usercustomize.py", "grader/__init__.py", "msgspec.py"]
)
def test_no_file_beside_takes_the_place_of_ours(name: str, grade: Grade) -> None:
    module = name.partition("/")[0].removesuffix(".py")
    unasked = "" if "customize" in module else f"import {module}\n"
    main = f"try:\n    import {module}\nexcept ImportError: pass\n{MAIN}"
    files = {"main.py": main, "attention.py": unasked + ATTEND, name: "import os\nos._exit(3)"}
    [record] = grade(files).values()
    assert record.status == "passed", tell(record)


def test_a_huge_file_beside_is_not_taken(grade: Grade) -> None:
    files = {"main.py": MAIN, "attention.py": "#" * 4000 + ATTEND}
    [record] = grade(files, limits=Limits(source=2000)).values()
    assert "imports `attention`, but attention.py is too large, together with" in tell(record)


def test_a_link_is_not_followed(grade: Grade, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.py").write_text(ATTEND)
    (tmp_path / "in/attention.py").symlink_to(tmp_path / "secret.py")
    [record] = grade({"in/main.py": MAIN}, "in/main.py").values()
    assert "imports `attention`, but attention.py is a symbolic link" in tell(record)


def test_it_is_there_again_in_every_process(grade: Grade) -> None:
    """A call that ends its process is followed by others in a fresh one."""
    dies = ATTEND.replace(
        "    return", "    import os\n    x.shape[0] > 6 and os._exit(1)\n    return"
    )
    [record] = grade({"main.py": MAIN, "attention.py": dies}).values()
    statuses = {p.status for p in record.properties}
    assert {"passed", "crashed"} <= statuses


# ---------------------------------------------------------------------- how long it takes

SLOW = "import time\ntime.sleep({seconds})\n" + ATTEND


def test_a_slow_import_is_no_slow_call(grade: Grade) -> None:
    """It sleeps longer than a call and than all calls may."""
    limits = Limits(call_s=1.0, idle_s=0.5, endless_calls=1)
    files = {"main.py": MAIN, "attention.py": SLOW.format(seconds=1.5)}
    [record] = grade(files, limits=limits).values()
    assert record.status == "passed", tell(record)


def test_an_import_that_takes_too_long_is_named(grade: Grade) -> None:
    files = {"main.py": MAIN, "attention.py": SLOW.format(seconds=60)}
    [record] = grade(files, limits=Limits(import_s=1.5)).values()
    assert (record.status, record.score) == ("timed_out", 0)
    assert tell(record) == (
        "`simplified_attention` could not be loaded: importing `attention` took longer than 0.5 s; "
        "leave it out if the class does not need it, and keep what it runs under "
        '`if __name__ == "__main__"`'
    )


def test_all_imports_of_a_file_share_one_budget(grade: Grade) -> None:
    slow = {f"slow{n}.py": "import time\ntime.sleep(0.4)" for n in range(5)}
    main = "".join(f"from slow{n} import *\n" for n in range(5)) + MAIN
    files = {"main.py": main, "attention.py": ATTEND, **slow}
    [record] = grade(files, limits=Limits(import_s=1.5)).values()
    assert record.status == "timed_out"
    assert "importing" in tell(record) and "took" in tell(record)


def test_a_module_that_is_missing_is_told_before_what_follows(grade: Grade) -> None:
    main = (
        "import torch, timm\ndef simplified_attention(x):\n"
        "    return timm.x(x) if x.shape[0] > 99 else x\n"
    )
    [record] = grade({"main.py": main}).values()
    told = "it imports `timm`, which is not installed here and not beside the file; leave the"
    assert f"hint      {told}" in tell(record)
    assert [note.message[: len(told)] for note in record.notes if note.kind == "import"] == [told]


def test_a_missing_module_that_is_not_needed_costs_nothing(grade: Grade) -> None:
    main = f"import timm, wandb\nfrom transformers import x\n{MAIN}\nwandb.init()\n"
    [record] = grade({"main.py": main, "attention.py": ATTEND}).values()
    assert record.status == "passed", tell(record)
    assert [note.kind for note in record.notes] == ["beside"]


PLAIN = BY_SLUG["self_attention_v2"]
CLASSMATE, COPIED = PLAIN.solution, Settings(exercise=PLAIN)
COPYIST = """
from torch import nn
try:
    from alice import SelfAttention_v2 as Base
except ImportError:
    Base = nn.Module
class SelfAttention_v2(Base):
    pass
"""


def grade_shared(sandbox: SandboxDriver, *paths: Path) -> dict[str, SubmissionRecord]:
    """The records of `grade` with these paths, by the stems of the files."""
    found = find_submissions([str(path) for path in paths], shared=True)
    listed = [grade_file_or_raise(sandbox.server, each, COPIED)[0] for each in found]
    return {record.student: record for record in listed}


@pytest.mark.parametrize("layout", ["alone", "folder", "sections"])
def test_a_classmate_s_answer_is_not_imported(
    layout: str, sandbox: SandboxDriver, tmp_path: Path
) -> None:
    home = tmp_path / "section" if layout == "sections" else tmp_path
    home.mkdir(exist_ok=True)
    (home / "alice.py").write_text(CLASSMATE)
    (home / "mallory.py").write_text(COPYIST)
    records = grade_shared(sandbox, home / "mallory.py" if layout == "alone" else tmp_path)
    copied = records["mallory"]
    assert copied.status != "passed" and copied.score < copied.max_score / 2
    if layout != "folder":
        assert any(
            "`alice.py`, a file beside it, was not used" in note.message for note in copied.notes
        )
    if layout != "alone":
        assert records["alice"].status == "passed"


def test_a_helper_beside_is_used_and_noted(sandbox: SandboxDriver, tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("ROOT = 0.5\n")
    answer = CLASSMATE.replace("** 0.5", "** ROOT").replace(
        "import torch\n", "import torch\nfrom helpers import ROOT\n", 1
    )
    (tmp_path / "alice.py").write_text(answer)
    record = grade_shared(sandbox, tmp_path / "alice.py")["alice"]
    assert record.status == "passed"
    assert [n.message for n in record.notes] == ["it uses `helpers.py`, a file beside it"]


def test_one_s_own_work_may_import_all_that_lies_beside_it(
    sandbox: SandboxDriver, tmp_path: Path
) -> None:
    (tmp_path / "alice.py").write_text(CLASSMATE)
    (tmp_path / "mine.py").write_text(COPYIST)
    [found] = find_submissions([str(tmp_path / "mine.py")])
    [record] = grade_file_or_raise(sandbox.server, found, COPIED)
    assert record.status == "passed"
    assert "it uses `alice.py`, a file beside it" in [n.message for n in record.notes]
