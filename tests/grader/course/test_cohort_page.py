"""The commands about courses, on their page and in the README, are commands."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from headcheck.exercises import BY_SLUG
from headcheck.grader.course.intake.gather import SubmittedFile
from headcheck.grader.course.intake.layouts import LAYOUTS
from headcheck.grader.course.intake.roster import Student
from headcheck.grader.course.result_lookup import load_results
from headcheck.grader.course.store import manifest
from headcheck.grader.course.store.records import hash_content
from headcheck.grader.course.store.store import open_store
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.ui.cli import cli
from headcheck.grader.ui.course_options import LAYOUT_NAMES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "cohort.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.M | re.S)
INSTRUCTORS = re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S)
LINES = [line for block in (*BLOCKS, *INSTRUCTORS) for line in block.splitlines()]


@pytest.mark.parametrize("line", LINES)
def test_documented_commands_are_valid(line: str) -> None:
    program, name, *arguments = shlex.split(line)
    assert program == "headcheck"
    cli.commands[name].make_context(name, arguments)


def test_parts_are_marked_by_hand_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of the section are run in their order, on a made-up run."""
    monkeypatch.chdir(tmp_path)
    section = PAGE.partition("\n## Hand-marked parts\n")[2].partition("\n## ")[0]
    [course] = re.findall(r"^```toml\n(.*?)^```", section, re.M | re.S)
    Path("headcheck.toml").write_text(course, encoding="utf-8")
    settings = Settings(exercise=BY_SLUG["causal_attention"])
    planned = manifest.build_manifest(settings)
    record = SubmissionRecord("ada.py", "17", "causal_attention", None, 60.0, 80.0, "failed", 1.0)
    with open_store("course.db", create=True) as store:
        begun = store.begin("causal_attention", planned)
        handed = SubmittedFile(Student("17"), "17", "ada.py", 1, False, None, None)
        content = hash_content(b"", "py")
        store.save_judgement(begun, planned.key, content, [handed], [record])
    blocks = re.findall(r"^```bash\n(.*?)^```", section, re.M | re.S)
    for line in "".join(blocks).splitlines():
        _, name, *arguments = shlex.split(line)
        ended = CliRunner().invoke(cli, [name, *arguments], catch_exceptions=False)
        assert ended.exit_code == (name == "regrade"), ended.output
    assert len(list(Path("code").glob("*.py"))) == 1
    with open_store("course.db") as store:
        [result] = load_results(store, "causal_attention")
    assert (result.max_score, result.score) == (94.0, 70.5), "63 of 84 points, since excused"


def test_the_readme_fills_in_a_gradebook() -> None:
    (block,) = INSTRUCTORS
    assert [line.split()[1] for line in block.splitlines()] == ["grade", "export"]


def test_the_command_offers_every_layout() -> None:
    assert tuple(LAYOUTS) == LAYOUT_NAMES


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_explained(name: str) -> None:
    assert f"| `{name}` |" in PAGE


def test_options_on_the_page_are_options() -> None:
    told = set(re.findall(r"`(--[a-z]+)", PAGE))
    there = {o for c in cli.commands.values() for p in c.params for o in p.opts}
    assert told - there == set()
