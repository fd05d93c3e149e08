"""The commands on pages about devices, strategies, libraries, feedback and own courses are run.

What they name (submissions, a course file, a module of one's own) is put into the folder. Of the
environments of tox that a page names, which install themselves, there is a test that they exist.
"""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from headcheck.grader.authoring import answers, rewrites
from headcheck.grader.grading.devices import explain_unavailable
from headcheck.grader.report.records import from_json
from headcheck.grader.ui.author_command import author
from tests.commands import Command, headcheck
from tests.docs.test_readme import ROOT, blocks, dialogues, folder, needs_plain, run

__all__ = ["folder", "headcheck"]

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


# ----------------------------------------------------------------------- a course of one's own

FEW = 8
"""in ordinary runs, one of so many changes of the solution is judged: all take two minutes"""
FEW_VARIANTS = 2
"""and one of so many rewrites of it"""
OF_ALL_CHANGES = "compute the same as the solution"
"""what is printed of a few of all changes alone"""


def generalise(line: str) -> str:
    """A line without numbers that a new claim or another mutant would change."""
    return re.sub(r" +", " ", re.sub(r"[\d.]*\d", "#", line))


@pytest.fixture
def is_whole(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether all changes of the solution are judged; a sample of them, if not."""
    if pytestconfig.getoption("whole"):
        return True
    changes, variants = answers.list_changes, rewrites.list_variants
    monkeypatch.setattr(answers, "list_changes", lambda e: changes(e)[::FEW])
    monkeypatch.setattr(rewrites, "list_variants", lambda e: variants(e)[::FEW_VARIANTS])
    return False


def test_the_course_is_authored_and_graded_as_documented(
    headcheck: Command, folder: Path, is_whole: bool
) -> None:
    assert Path.cwd() == folder
    for command, lines in dialogues(PAGES["own-course"]):
        ran = headcheck(*shlex.split(command)[1:])
        assert ran.code in (0, 1), ran.err
        printed = iter([generalise(line) for line in ran.out.splitlines()])
        for line in lines:
            if is_whole or OF_ALL_CHANGES not in line:
                assert generalise(line) in printed, f"{command}\n{ran.out}\n{ran.err}"


def test_every_option_on_the_page_is_one() -> None:
    told = set(re.findall(r"`(--[a-z-]+)`", PAGES["own-course"]))
    there = {name for p in author.params for name in (*p.opts, *p.secondary_opts)}
    assert told <= there
    assert {"--causal", "--no-causal", "--dropout", "--uniform", "--yes", "--class"} <= told
