"""The step that grades in docs/classroom.yml does what the step that reports needs."""

import base64
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import headcheck
from headcheck.exercises import BY_SLUG
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


@pytest.mark.sampled("right", [True, False], [False])
def test_the_step_reports_points_and_annotations(tmp_path: Path, right: bool) -> None:
    answer = EXERCISE.solution if right else EXERCISE.solution.replace("dim=-1", "dim=0")
    (tmp_path / "answer.py").write_text(answer, encoding="utf-8")
    done, result = grade(tmp_path)
    assert result["version"] == 1
    assert result["status"] == ("pass" if right else "fail")
    points = sum(test["score"] for test in result["tests"])
    assert (points == result["max_score"]) is right
    assert ("::error file=answer.py" in done.stdout) is not right


def test_what_a_student_commits_changes_no_grade(tmp_path: Path) -> None:
    """Neither a store with an override nor results of other names are read."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    wrong = EXERCISE.solution.replace("dim=-1", "dim=0")
    (checkout / "answer.py").write_text(wrong, encoding="utf-8")
    slug = EXERCISE.slug
    for command in (
        ["grade", "answer.py", "--exercise", slug],
        ["override", f"{slug}/answer", "82", "--reason", "mine"],
    ):
        last = subprocess.run(
            [sys.executable, "-m", "headcheck", *command, "--store", "grades.db"],
            cwd=checkout,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1"},
            capture_output=True,
        )
    assert last.returncode == 0, last.stderr  # the store now says full marks
    (checkout / "results").mkdir()
    (checkout / "results" / "zz.result").write_text("full")
    (checkout / "results" / "aa.annotations").write_text("::notice ::committed\n")
    done, result = grade(checkout)
    assert result["status"] == "fail" and "committed" not in done.stdout
    assert sum(test["score"] for test in result["tests"]) < result["max_score"]
