"""The step that grades in docs/classroom.yml does what the step that reports needs."""

import base64
import json
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

import headcheck
from headcheck.exercises import BY_SLUG
from tests.commands import Command
from tests.steps import run_step

WORKFLOW = (Path(__file__).parents[3] / "docs" / "classroom.yml").read_text(encoding="utf-8")
STEPS = dict(re.findall(r"- name: (\w+)\n(?: {8}id.*\n)?.*run: \|\n((?: {10}.*\n)+)", WORKFLOW))
ROOT = str(Path(headcheck.__path__[0]).parent)
EXERCISE = BY_SLUG["simplified_attention"]


def test_workflow_has_no_tabs_and_names_existing_things() -> None:
    assert "\t" not in WORKFLOW and STEPS.keys() == {"Install", "Grade"}
    (slug,) = re.findall(r"EXERCISE: (\w+)", WORKFLOW)
    assert slug in BY_SLUG
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    steps = yaml.safe_load(WORKFLOW)["jobs"]["grade"]["steps"]
    assert [step.get("id") for step in steps] == [None, None, None, "headcheck", None]


def grade(checkout: Path) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run the step that grades in a checkout; return what it prints, and its only result."""
    tools = checkout.parent / f"{checkout.name}_tools"
    given = {"EXERCISE": EXERCISE.slug, "ANSWER": "answer.py"}
    given |= {"GITHUB_OUTPUT": str(tools / "output"), "PYTHONPATH": ROOT}
    done = run_step(checkout, tools, textwrap.dedent(STEPS["Grade"]), **given)
    assert done.returncode == 0, done.stderr
    [line] = (tools / "output").read_text().splitlines()
    name, _, encoded = line.partition("=")
    assert name == "result"
    return done, json.loads(base64.b64decode(encoded))


@pytest.mark.whole
def test_the_step_reports_full_marks(tmp_path: Path) -> None:
    (tmp_path / "answer.py").write_text(EXERCISE.solution, encoding="utf-8")
    done, result = grade(tmp_path)
    assert result["status"] == "pass" and "::error" not in done.stdout
    assert sum(test["score"] for test in result["tests"]) == result["max_score"]


def test_the_step_reports_points_and_annotations_whatever_a_student_commits(
    headcheck: Command, tmp_path: Path
) -> None:
    """Neither a store with an override nor results of other names are read."""
    wrong = EXERCISE.solution.replace("dim=-1", "dim=0")
    (tmp_path / "answer.py").write_text(wrong, encoding="utf-8")
    store = ("--store", "grades.db")
    assert headcheck("grade", "answer.py", "--exercise", EXERCISE.slug, *store).code == 1
    told = headcheck("override", f"{EXERCISE.slug}/answer", "82", "--reason", "mine", *store)
    assert told.code == 0, "the store now says full marks"
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "zz.result").write_text("full")
    (tmp_path / "results" / "aa.annotations").write_text("::notice ::committed\n")
    done, result = grade(tmp_path)
    assert (result["version"], result["status"]) == (1, "fail")
    assert "::error file=answer.py" in done.stdout and "committed" not in done.stdout
    assert sum(test["score"] for test in result["tests"]) < result["max_score"]
