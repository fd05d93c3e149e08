"""The step that grades in docs/classroom.yml does what the step that reports needs."""

import base64
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import grader
from exercises import BY_SLUG

WORKFLOW = (Path(__file__).parents[3] / "docs" / "classroom.yml").read_text(encoding="utf-8")
STEPS = dict(re.findall(r"- name: (\w+)\n(?: {8}id.*\n)?.*run: \|\n((?: {10}.*\n)+)", WORKFLOW))
EXERCISE = BY_SLUG["simplified_attention"]


def test_workflow_has_no_tabs_and_names_existing_things() -> None:
    assert "\t" not in WORKFLOW and STEPS.keys() == {"Install", "Grade"}
    (slug,) = re.findall(r"EXERCISE: (\w+)", WORKFLOW)
    assert slug in BY_SLUG
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    steps = yaml.safe_load(WORKFLOW)["jobs"]["grade"]["steps"]
    assert [step.get("id") for step in steps] == [None, None, None, "headcheck", None]


@pytest.mark.sampled("right", [True, False], [False])
def test_the_step_reports_points_and_annotations(tmp_path: Path, right: bool) -> None:
    answer = EXERCISE.solution if right else EXERCISE.solution.replace("dim=-1", "dim=0")
    (tmp_path / "answer.py").write_text(answer, encoding="utf-8")
    program = tmp_path / "headcheck"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m grader "$@"\n')
    program.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(grader.__path__[0]).parent),
        "EXERCISE": EXERCISE.slug,
        "ANSWER": "answer.py",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "OMP_NUM_THREADS": "1",
    }
    step = textwrap.dedent(STEPS["Grade"])
    done = subprocess.run(
        ["bash", "-e", "-c", step], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    name, _, encoded = (tmp_path / "output").read_text().strip().partition("=")
    result = json.loads(base64.b64decode(encoded))
    assert name == "result" and result["version"] == 1
    assert result["status"] == ("pass" if right else "fail")
    points = sum(test["score"] for test in result["tests"])
    assert (points == result["max_score"]) is right
    assert ("::error file=answer.py" in done.stdout) is not right
