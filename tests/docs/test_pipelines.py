"""The files that a library or a course copies into its own pipeline do what they say."""

import re
import subprocess
import textwrap
from pathlib import Path

import click
import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.location import HEADCHECK
from headcheck.grader.ui.cli import cli
from tests.steps import run_step

ROOT = Path(__file__).parents[2]
WORKFLOW = (ROOT / "docs" / "verify.yml").read_text(encoding="utf-8")
HOOKS = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "docs" / "Dockerfile").read_text(encoding="utf-8")
INSTRUCTION = re.compile(r"(?m)^(?!#)(\S+) ((?:.*\\\n)*.*)$")
FEW = """
from hypothesis import settings

settings.register_profile("few", max_examples=2)
settings.load_profile("few")
"""
"""a library's own profile, by which cases are searched"""
PYPROJECT = """
[tool.headcheck.targets."attention:simplified_attention"]
exercise = "simplified_attention"
sizes = "tokens<=8"
"""


@pytest.mark.sampled("right", [True, False], [False])
def test_the_workflow_of_a_library_verifies_its_targets(tmp_path: Path, right: bool) -> None:
    source = BY_SLUG["simplified_attention"].solution
    source = source if right else source.replace("softmax", "sigmoid").replace(", dim=-1", "")
    (tmp_path / "attention.py").write_text(source)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "conftest.py").write_text(FEW)
    [step] = re.findall(r"- name: Verify\n +run: \|\n((?: {10}.*\n)+)", WORKFLOW)
    done = run_step(tmp_path, tmp_path / "tools", textwrap.dedent(step))
    assert done.returncode == (0 if right else 1), done.stdout + done.stderr
    said = r"^\d+ passed" if right else r"^FAILED it_equals_the_equation"
    assert re.search(said, done.stdout, re.MULTILINE)


def test_the_hook_gives_a_command_that_there_is() -> None:
    [entry] = re.findall(r"(?m)^  entry: (.*)$", HOOKS)
    program, name, *arguments = entry.split()
    assert program == "headcheck" and "pass_filenames: false" in HOOKS
    with click.Context(cli) as context:
        cli.commands[name].make_context(name, arguments, parent=context)


def test_the_image_copies_and_runs_what_an_autograder_holds() -> None:
    instructions = INSTRUCTION.findall(DOCKERFILE)
    assert [name for name, _ in instructions] == ["FROM", "RUN", "COPY", "RUN"]
    scripts = [rest.replace("\\\n", "") for name, rest in instructions if name == "RUN"]
    for script in scripts:  # the shell reads it without running any of it
        subprocess.run(["bash", "-n", "-c", script], check=True)
    packed = HEADCHECK / "grader" / "course" / "autograder"
    for name in re.findall(r"/autograder/source/(\S+)", scripts[-1]):
        assert (packed / name).is_file()
