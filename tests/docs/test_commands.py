"""The commands on the pages about devices, strategies, libraries and feedback are run as given.

What they name (submissions, a course file, a module of one's own) is put into the folder. Of the
environments of tox that a page names, which install themselves, there is a test that they exist.
"""

import re
import shutil
from pathlib import Path

import pytest

from headcheck.grader.grading.devices import explain_unavailable
from headcheck.grader.report.records import from_json
from tests.docs.test_readme import ROOT, blocks, folder, needs_plain, run

__all__ = ["folder"]

PAGES = {p.stem: p.read_text(encoding="utf-8") for p in (ROOT / "docs").glob("*.md")}
COMMAND = re.compile(r"^(?:headcheck|pytest) .*$", re.M)


def find_commands(page: str) -> list[str]:
    code = [*blocks(PAGES[page], "bash"), *blocks(PAGES[page], "text")]
    return [line for block in code for line in COMMAND.findall(block)]


FEEDBACK = find_commands("feedback-levels")
STRATEGIES = [line for line in find_commands("strategies") if line.startswith("pytest")]
LIBRARIES = find_commands("libraries")
DEVICES = find_commands("gpu")


def test_every_page_has_commands() -> None:
    assert all((FEEDBACK, STRATEGIES, LIBRARIES, DEVICES))


@pytest.mark.parametrize("command", FEEDBACK)
def test_feedback_is_limited_as_the_page_says(folder: Path, command: str) -> None:
    submissions = folder / "submissions"
    submissions.mkdir()
    wrong = "def simplified_attention(x):\n    return x @ x.T @ x\n"
    (submissions / "ada.py").write_text(wrong, encoding="utf-8")
    (folder / "exam.toml").write_text('feedback = "message"\n', encoding="utf-8")
    done = run(command, folder)
    assert done.returncode == 1, done.stdout + done.stderr
    report = from_json((folder / "report" / "report.json").read_text(encoding="utf-8"))
    told = [p.message for p in report.submissions[0].properties if p.message]
    assert told and not any("\n  expected" in message for message in told)


@pytest.mark.parametrize("command", STRATEGIES)
def test_an_implementation_of_one_s_own_is_tried_as_the_page_says(
    folder: Path, command: str
) -> None:
    solution = ROOT / "exercises" / "multi_head_attention" / "solution.py"
    text = solution.read_text(encoding="utf-8")
    named = text.replace("class MultiHeadAttention", "class Attention")
    (folder / "mine.py").write_text(named, encoding="utf-8")
    done = run(command, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@needs_plain
@pytest.mark.parametrize("command", LIBRARIES)
def test_a_library_s_attention_is_verified_as_the_page_says(folder: Path, command: str) -> None:
    done = run(f"{command} --cases bank", folder)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_plain
@pytest.mark.parametrize("command", DEVICES)
def test_devices_are_chosen_as_the_page_says(
    folder: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a GPU the CPU is tried, and what is asked of the GPU is skipped, with the reason."""
    monkeypatch.setenv("PYTHONPATH", str(folder))  # in place of installing the package
    package = folder / "mypackage"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(ROOT / "exercises" / "causal_attention" / "solution.py", package / "attention.py")
    done = run(command, folder)
    said = done.stdout + done.stderr
    reason = explain_unavailable("cuda")
    assert (done.returncode == 0 and " passed" in said) if reason is None else reason in said, said


def test_environments_that_pages_name_exist() -> None:
    named = {n for text in PAGES.values() for n in re.findall(r"tox (?:run )?-e (\w+)", text)}
    configured = (ROOT / "tox.ini").read_text(encoding="utf-8")
    assert {"gpu", "libraries"} <= named
    assert {n for n in named if f"[testenv:{n}]" not in configured} <= {"py311", "py312", "py313"}
