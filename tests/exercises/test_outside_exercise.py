"""An exercise in a folder of an instructor's own is taken wherever one of ours is."""

import io
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell

from headcheck import check
from headcheck.exercises import BY_SLUG, Exercise
from headcheck.exercises.answers import BadBank, load_bank
from headcheck.exercises.contract_file import load_exercise
from headcheck.grader import run
from headcheck.grader.batch import disk_cache, plan
from headcheck.grader.course.autograder import AutograderPlan, pack
from headcheck.grader.course.autograder.__main__ import main as grade_on_gradescope
from headcheck.grader.course.autograder.pack import Wheel
from headcheck.grader.course.store import manifest
from headcheck.grader.grading.infer import TargetNotFound, find_exercise
from headcheck.grader.report.course_file import BadCourseFile, read_course_file
from headcheck.grader.ui.jupyter import CannotCheck
from tests.commands import Command, headcheck, one_line
from tests.grader.course.test_autograder import wheel
from tests.grader.ui.jupyter.cells import run_cell
from tests.grader.ui.jupyter.test_magic import records, shell, shown
from tests.grader.ui.pytest_plugin.test_plugin import Run
from tests.grader.ui.pytest_plugin.test_plugin import run as run_pytest

__all__ = ["headcheck", "run_pytest", "shell", "wheel"]

pytest_plugins = ["pytester"]

CONTRACT = """\
title = "Attention with one layer"
name = "JoinedAttention"
capabilities = ["full", "stable"]

[arguments]
d_in = "d_in"
d_out = "d_out"

[parameters]
"kqv.weight" = ["W_k", "W_q", "W_v"]  # in an order that none of ours has

[points]
values = 40
"""
SOLUTION = '''\
import torch
from torch import nn


class JoinedAttention(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        # BEGIN SOLUTION
        self.kqv = nn.Linear(d_in, 3 * d_out, bias=False)
        # END SOLUTION

    def forward(self, x):
        # BEGIN SOLUTION
        keys, queries, values = self.kqv(x).chunk(3, dim=-1)
        scores = queries @ keys.T / keys.shape[-1] ** 0.5
        return torch.softmax(scores, dim=-1) @ values
        # END SOLUTION
'''  # fmt: skip
WRONG = SOLUTION.replace("keys, queries, values", "queries, keys, values")
FAULTS = """\
[swapped]
base = "solution.py"
why = "Queries and keys are taken for each other."
edits = [{replace = "keys, queries, values", by = "queries, keys, values"}]
"""
SLUG = "joined_attention"
SECOND = CONTRACT.replace('["W_k", "W_q", "W_v"]', '["W_q", "W_k", "W_v"]')


def write_exercise(folder: Path, contract: str = CONTRACT) -> Path:
    texts = {
        "contract.toml": contract,
        "statement.md": "# Attention with one layer\n\nWrite it.\n",
        "hints.md": "1. One layer.\n2. Three pieces.\n",
        "solution.py": SOLUTION,
        "answers/faults.toml": FAULTS,
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The folder of the exercise, with a right and a wrong answer beside it."""
    (tmp_path / "right.py").write_text(SOLUTION, encoding="utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    return write_exercise(tmp_path / "course" / SLUG)


# -------------------------------------------------------------------------- the command


def test_check_tells_a_right_answer_from_a_wrong_one(headcheck: Command, own: Path) -> None:
    ran = headcheck("check", "right.py", "--exercise", str(own))
    assert (ran.code, ran.err) == (0, "")
    assert f"right.py  {SLUG} (JoinedAttention)  " in ran.out
    ran = headcheck("check", "wrong.py", "--exercise", f"course/{SLUG}/contract.toml")
    assert ran.code == 1
    assert "The output equals the equation" in ran.out


@pytest.mark.whole
def test_workers_grade_it(headcheck: Command, own: Path) -> None:
    Path("points.toml").write_text(f"[points.{SLUG}]\nvalues = 50\n")
    options = ("--course", "points.toml", "--jobs", "2", "--format", "json")
    ran = headcheck("grade", "right.py", "wrong.py", "--exercise", f"course/{SLUG}", *options)
    told = json.loads(ran.out)["submissions"]
    assert [(each["exercise"], each["status"]) for each in told] == [
        (SLUG, "passed"),
        (SLUG, "failed"),
    ]
    values = [p["max_points"] for p in told[0]["properties"] if p["group"] == "values"]
    assert sum(values) == pytest.approx(50, abs=0.1)


@pytest.mark.whole
def test_it_is_shown_started_and_audited(headcheck: Command, own: Path) -> None:
    path = f"course/{SLUG}"
    assert "# Attention with one layer\n\nWrite it." in headcheck("show", path).out
    assert f"The next: headcheck hint {path} 2" in headcheck("hint", path).out
    ran = headcheck("start", path, "starters", "--form", "both")
    assert ran.out.splitlines()[-1] == (
        f"to check it there, put a copy of the folder {SLUG} beside it"
    )
    starter = Path(f"starters/{SLUG}.py").read_text(encoding="utf-8")
    assert f"headcheck check {SLUG}.py --exercise {SLUG}\n" in starter
    assert "chunk" not in starter
    notebook = Path(f"starters/{SLUG}.ipynb").read_text(encoding="utf-8")
    assert f'check(JoinedAttention, exercise=\\"{SLUG}\\")' in notebook
    assert headcheck("bank", "show", path).out.startswith("wrong  swapped  Queries and keys")
    assert headcheck("bank", "show", f"{path}/swapped").out.endswith(WRONG)
    ran = headcheck("audit", path, "--jobs", "1")
    assert ran.code == 0
    assert "Clean: 0 of 1 wrong answers survive, 0 of 1 right ones are accused" in ran.out


def test_a_name_beside_it_is_enough(
    headcheck: Command, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own.parent)
    assert find_exercise(SLUG) is find_exercise(str(own))
    monkeypatch.chdir(own)
    assert find_exercise(".") is find_exercise(str(own))


@pytest.mark.parametrize("command", ["check", "grade", "show", "hint", "start", "audit"])
def test_what_is_wrong_is_one_line(headcheck: Command, own: Path, command: str) -> None:
    write_exercise(own, CONTRACT.replace('"full"', '"ful"'))
    named = ("right.py", "--exercise") if command in ("check", "grade") else ()
    said = one_line(headcheck(command, *named, str(own)))
    assert said == (
        f"{own / 'contract.toml'}, line 3: `capabilities` knows no 'ful'; did you mean 'full'?"
    )


def test_what_is_missing_is_one_line(headcheck: Command, own: Path) -> None:
    said = one_line(headcheck("show", "course"))
    assert said == "there is no exercise 'course'; see `headcheck list`, or name a folder"
    said = one_line(headcheck("show", "./course"))
    assert said.endswith("contract.toml, line 1: there is no such file: an exercise is a folder "
                         "with a contract")  # fmt: skip
    (own / "solution.py").unlink()
    assert "solution.py, line 1: there is no such file" in one_line(headcheck("start", str(own)))
    shutil.rmtree(own / "answers")
    with pytest.raises(BadBank, match="there is no such folder"):
        load_bank(load_exercise(own))


def test_it_may_not_have_the_name_of_one_of_ours(headcheck: Command, tmp_path: Path) -> None:
    write_exercise(tmp_path / "causal_attention")
    said = one_line(headcheck("show", "./causal_attention"))
    assert "headcheck has an exercise 'causal_attention' already: give the folder another" in said
    assert find_exercise("causal_attention") is BY_SLUG["causal_attention"]
    assert find_exercise(str(BY_SLUG["gpt2_size"].folder)) is BY_SLUG["gpt2_size"]


def test_a_solution_that_cannot_be_run_is_one_line(headcheck: Command, own: Path) -> None:
    path = own / "solution.py"
    for jobs, source, said in (
        ("1", "import torch\nmissing\n", "line 2: it cannot be run: NameError: name 'missing' is"),
        ("1", "import torch\n(\n", "line 2: it cannot be run: SyntaxError: "),
        (
            "2",
            "import torch\n",
            "line 1: it does not define `JoinedAttention`, as the contract says",
        ),
    ):
        path.write_text(source, encoding="utf-8")
        asked = ("grade", "right.py", "wrong.py", "--exercise", str(own), "--jobs", jobs)
        assert one_line(headcheck(*asked)).startswith(f"{path}, {said}")
    path.write_text(f"missing\n{SOLUTION}", encoding="utf-8")
    said = one_line(headcheck("audit", str(own), "--jobs", "1"))
    assert said == f"{SLUG}/solution cannot be run: NameError: name 'missing' is not defined"


def test_students_need_no_solution(headcheck: Command, own: Path) -> None:
    (own / "solution.py").unlink()
    shutil.rmtree(own / "answers")
    assert headcheck("check", "right.py", "--exercise", str(own)).code == 0
    assert headcheck("check", "wrong.py", "--exercise", str(own)).code == 1


def test_two_of_one_name_are_not_audited_together(headcheck: Command, own: Path) -> None:
    other = write_exercise(own.parents[1] / "other" / SLUG, SECOND)
    ran = headcheck("audit", str(own), str(other))
    assert ran.code == 2 and "two of these folders have the same name" in ran.err


# -------------------------------------------------------------------------- what is kept


def test_two_of_one_name_have_plans_of_their_own(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def load(key: str, *_: object) -> SimpleNamespace:
        asked.append(key)
        return SimpleNamespace(cases={})

    monkeypatch.setattr(disk_cache, "load_or_make", load)
    other = write_exercise(tmp_path / "other" / SLUG, CONTRACT.replace("d_in =", "width ="))
    for exercise in (load_exercise(own), load_exercise(other)):
        plan.get_batch_plan(exercise, exercise.contract.mappings, 7, "cpu")
    assert len(set(asked)) == 2


def settings_of(folder: Path) -> manifest.Manifest:
    return manifest.build_manifest(run.make_settings(run.find_exercise(str(folder))))


def test_a_run_is_repeated_from_its_manifest(own: Path, tmp_path: Path) -> None:
    kept = manifest.decode(manifest.encode(settings_of(own)))
    assert kept.settings.exercise is load_exercise(own)
    moved = shutil.copytree(own, tmp_path / "moved" / SLUG)
    assert settings_of(moved).key == kept.key, "no verdict depends on where it is"
    write_exercise(own, SECOND)
    assert settings_of(own).key != kept.key
    repeated = kept.settings.exercise
    assert repeated is not None
    assert repeated.source == CONTRACT, "as it was"
    assert manifest.build_manifest(run.make_settings(BY_SLUG["linear_layer"])).contract == ""
    with pytest.raises(manifest.ManifestError, match="the run judged 'joined_attention': "):
        _ = replace(kept, contract="title = 3").settings


def test_a_course_is_graded_regraded_and_decided_upon(headcheck: Command, own: Path) -> None:
    path = f"course/{SLUG}"
    ran = headcheck("grade", "right.py", "--exercise", path, "--store", "c.db")
    assert ran.code == 0
    shutil.rmtree(own)
    assert headcheck("regrade", SLUG, "--store", "c.db", "--diff", "--seed", "5").code == 0
    who = f"{SLUG}/right"
    ran = headcheck("override", who, "1", "--store", "c.db", "--exercise", f"./{path}")
    assert ran.out.startswith(f"{who} {SLUG}: ")


def test_points_are_for_exercises_that_there_are(own: Path, tmp_path: Path) -> None:
    path = tmp_path / "points.toml"
    path.write_text(f"[points.{SLUG}]\nvalues = 50\n", encoding="utf-8")
    assert read_course_file(path, load_exercise(own)).points == {SLUG: {"values": 50}}
    with pytest.raises(BadCourseFile, match="line 1: there is no exercise 'joined_attention'"):
        read_course_file(path)
    beside = own.parent / "headcheck.toml"  # as a course with several exercises has it
    shutil.copy(path, beside)
    assert read_course_file(beside).points == {SLUG: {"values": 50}}


# -------------------------------------------------------------------------- elsewhere


@pytest.mark.whole
def test_pytest_tries_it(run_pytest: Run, pytester: pytest.Pytester, own: Path) -> None:
    pytester.makepyfile(mine=WRONG)
    write_exercise(pytester.path / "my folder" / SLUG)
    result = run_pytest("mine:JoinedAttention", "-k", "equation", slug=f"my folder/{SLUG}")
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"*--exercise 'my folder/{SLUG}' --property it_equals*"])
    (pytester.path / "my folder" / SLUG / "contract.toml").write_text("name = 3\n")
    result = run_pytest("mine:JoinedAttention", slug=f"./my folder/{SLUG}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --exercise: *contract.toml, line 1: `name` must be*"])


def test_a_notebook_checks_against_it(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own.parent)
    right, wrong = run_cell(SOLUTION)["JoinedAttention"], run_cell(WRONG)["JoinedAttention"]
    assert check(right, exercise=SLUG).passed
    assert not check(wrong, exercise=str(own)).passed
    with pytest.raises(CannotCheck, match="no exercise 'absent'"):
        check(right, exercise="absent")
    (own / "hints.md").unlink()
    with pytest.raises(CannotCheck, match=r"hints\.md, line 1: there is no such file"):
        check(right, exercise=SLUG)


def test_the_magic_checks_against_it(shell: InteractiveShell, own: Path) -> None:
    spaced = shutil.copytree(own, own.parent / "my folder" / SLUG)
    for folder in (own, spaced):
        [line] = records(shell, f"%%headcheck {folder}\n{SOLUTION}")
        assert line.startswith(f"notebook  {SLUG} (JoinedAttention)") and line.endswith("passed")
    _, printed, _ = shown(shell, f"%%headcheck {own.parent}\nn = 1")
    assert "contract.toml, line 1: there is no such file" in printed


@pytest.mark.whole
def test_gradescope_grades_it(wheel: Wheel, own: Path, tmp_path: Path) -> None:
    planned = AutograderPlan(settings_of(own), trusted=True)
    root = tmp_path / "autograder"
    with zipfile.ZipFile(io.BytesIO(pack.build_archive(planned, wheel, 10))) as archive:
        names = {name for name in archive.namelist() if name.startswith("exercises/")}
        archive.extractall(root / "source")
    assert names == {
        f"exercises/{SLUG}/{name}"
        for name in ("contract.toml", "statement.md", "hints.md", "solution.py")
    }
    assert str(tmp_path) not in (root / "source" / "plan.json").read_text(encoding="utf-8")
    shutil.rmtree(own)
    (root / "submission").mkdir()
    for source, code in ((SOLUTION, 0), (WRONG, 1)):
        (root / "submission" / "mine.py").write_text(source, encoding="utf-8")
        assert grade_on_gradescope(root) == code
        results = json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))
        assert results["tests"]


def test_an_unknown_name_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "linear").mkdir()
    with pytest.raises(TargetNotFound, match="did you mean linear_layer"):
        find_exercise("linear")


def test_the_contract_of_the_tests_is_one_of_nobody_else(own: Path) -> None:
    exercise: Exercise = load_exercise(own)
    assert exercise.contract not in [each.contract for each in BY_SLUG.values()]
