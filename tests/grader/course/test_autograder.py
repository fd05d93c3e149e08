"""The archive for Gradescope: what is in it, and what it makes of submissions."""

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import headcheck
from headcheck import grader
from headcheck.exercises import BY_SLUG
from headcheck.grader import run
from headcheck.grader.course.autograder import AutograderPlan, decode_plan, encode_plan, pack
from headcheck.grader.course.autograder.__main__ import _make_results, main
from headcheck.grader.course.autograder.pack import (
    Wheel,
    WheelError,
    build_own_wheel,
    pin_versions,
    read_wheel,
    repack_wheel,
)
from headcheck.grader.course.store import manifest
from headcheck.grader.grading.infer import TargetNotFound
from headcheck.grader.report.feedback import Feedback, FeedbackLevel
from headcheck.grader.seed import SeedKind, make_seed
from headcheck.grader.ui.cli import cli
from tests.grader.course.gradebooks import GRADESCOPE_FIELDS

EXERCISE = BY_SLUG["simplified_attention"]
RIGHT = EXERCISE.solution
WRONG = RIGHT.replace("softmax", "sigmoid").replace(", dim=-1", "")
ROOMS = str(Path(headcheck.__path__[0]).parent)

METADATA = """Metadata-Version: 2.4
Name: headcheck
Version: 0.1.0
Requires-Dist: click
Requires-Dist: not-there-at-all>=2
Requires-Dist: sqlalchemy>=2; extra == 'course'
"""


@pytest.fixture
def wheel() -> Wheel:
    """Stands for headcheck's wheel where nothing is installed from it."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("headcheck-0.1.0.dist-info/METADATA", METADATA)
    return Wheel("headcheck-0.1.0-py3-none-any.whl", data.getvalue())


def plan_of(**options: Any) -> AutograderPlan:
    return AutograderPlan(manifest.build_manifest(run.make_settings(EXERCISE, **options)))


def unpack(plan: AutograderPlan, wheel: Wheel, folder: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(pack.build_archive(plan, wheel, 10))) as archive:
        archive.extractall(folder)


Graded = Callable[..., tuple[subprocess.CompletedProcess[str], dict[str, Any]]]


@pytest.fixture
def graded(wheel: Wheel, tmp_path: Path) -> Graded:
    """Unpacks the archive, submits files, and runs what Gradescope would run."""
    root = tmp_path / "autograder"

    def ran(
        files: dict[str, str], *, plan: AutograderPlan | None = None, **environment: str
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        unpack(plan or plan_of(), wheel, root / "source")
        (root / "submission").mkdir(exist_ok=True)
        for name, text in files.items():
            (root / "submission" / name).write_text(text, encoding="utf-8")
        given = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": ROOMS,
            "HEADCHECK_PYTHON": sys.executable,
        }
        command = ["bash", str(root / "source" / "run_autograder"), str(root)]
        about: dict[str, Any] = {"capture_output": True, "text": True, "cwd": tmp_path}
        done = subprocess.run(command, check=False, env=given | environment, **about)
        results = json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))
        assert valid(results)
        assert sorted(p.name for p in (root / "results").iterdir()) == ["results.json"]
        return done, results

    return ran


def valid(results: dict[str, Any]) -> bool:
    """What Gradescope asks of results.json."""
    numbers = [results["score"], *(test["score"] for test in results.get("tests", ()))]
    return (
        results.keys() <= GRADESCOPE_FIELDS
        and all(isinstance(number, int | float) for number in numbers)
        and isinstance(results["output"], str)
        and results["visibility"] == "visible"
        and results["stdout_visibility"] == "hidden"
    )


# ------------------------------------------------------------------------ what is in it


def test_the_archive_holds_what_gradescope_asks_for(wheel: Wheel) -> None:
    made = pack.build_archive(plan_of(seed=make_seed(7)), wheel, 20)
    again = pack.build_archive(plan_of(seed=make_seed(7)), wheel, 20)
    assert made == again, "the same bytes for the same settings"
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        modes = {each.filename: each.external_attr >> 16 for each in archive.infolist()}
        assert set(modes) == {
            "setup.sh", "run_autograder", "plan.json", "constraints.txt", wheel.name,
        }  # fmt: skip
        assert modes["setup.sh"] & 0o111 and modes["run_autograder"] & 0o111
        assert archive.read(wheel.name) == wheel.data
        told = decode_plan(archive.read("plan.json"))
        assert told.manifest.settings.exercise is EXERCISE and told.manifest.seed == 7
        assert not told.trusted
        assert b"HEADCHECK_SECONDS:-1170}" in archive.read("run_autograder"), "below 20 minutes"
        assert f"python{sys.version_info[0]}.{sys.version_info[1]}" in str(archive.read("setup.sh"))
        assert b"@" not in archive.read("setup.sh").replace(b"{@", b"")


@pytest.mark.parametrize("name", ["setup.sh", "run_autograder"])
def test_the_scripts_are_scripts(name: str) -> None:
    path = Path(grader.__path__[0], "course", "autograder", name)
    assert subprocess.run(["bash", "-n", path], check=False).returncode == 0
    if shutil.which("shellcheck"):
        assert subprocess.run(["shellcheck", path], check=False).returncode == 0


def test_versions_are_pinned_to_tested_ones(wheel: Wheel) -> None:
    assert list(wheel.requirements) == ["click", "not-there-at-all"]
    lines = pin_versions(iter(["torch", "Jinja2", "not-there-at-all"]))
    assert f"torch=={distribution('torch').version.partition('+')[0]}" in lines
    assert f"markupsafe=={distribution('markupsafe').version}" in lines, "what they need, too"
    assert lines == sorted(lines)


def test_installed_package_can_be_repacked(tmp_path: Path) -> None:
    made = repack_wheel(distribution("pluggy"))
    assert made.name == f"pluggy-{distribution('pluggy').version}-py3-none-any.whl"
    with zipfile.ZipFile(io.BytesIO(made.data)) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path)
        record = archive.read(next(n for n in names if n.endswith("RECORD"))).decode()
    assert len(record.splitlines()) == len(names), "every file is listed, the list as well"
    assert not any(name.endswith((".pyc", "INSTALLER")) for name in names)
    program = "import pluggy, sys; print(pluggy.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(tmp_path)},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.startswith(str(tmp_path))


def test_foreign_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WheelError, match=r"torch-2\.whl: is not a wheel of headcheck"):
        read_wheel(tmp_path / "torch-2.whl")
    path = tmp_path / "headcheck-1-py3-none-any.whl"
    path.write_bytes(b"no zip")
    with pytest.raises(WheelError, match="is not a wheel"):
        list(read_wheel(path).requirements)


def test_the_command_writes_it(wheel: Wheel, tmp_path: Path) -> None:
    path = tmp_path / wheel.name
    path.write_bytes(wheel.data)
    out = str(tmp_path / "out.zip")
    told = ["gradescope", EXERCISE.slug, out, "--wheel", str(path), "--seconds", "9", "--trusted"]
    told += ["--feedback", "message"]
    done = CliRunner().invoke(cli, told)
    said = f"wrote {out}: 82 points, 10 minutes; set these on Gradescope\n"
    assert (done.exit_code, done.output) == (0, said)
    with zipfile.ZipFile(out) as archive:
        plan = decode_plan(archive.read("plan.json"))
    assert plan.trusted and plan.manifest.limits == {"total_s": 9.0}
    assert plan.manifest.case_seed.kind is SeedKind.SECRET and plan.manifest.seed
    assert plan.manifest.feedback.level is FeedbackLevel.MESSAGE
    done = CliRunner().invoke(cli, ["gradescope", "no_such", out, "--wheel", str(path)])
    assert isinstance(done.exception, TargetNotFound)


# ------------------------------------------------------------------------ what it does


def test_a_right_answer_has_all_points(graded: Graded) -> None:
    done, results = graded({"answer.py": RIGHT})
    assert done.returncode == 0 and "exit code 0" in done.stdout
    most = sum(test["max_score"] for test in results["tests"])
    assert results["score"] == pytest.approx(most, abs=1e-5) and most > 0
    assert {test["status"] for test in results["tests"]} == {"passed"}


@pytest.mark.whole
def test_the_best_of_several_files_counts(graded: Graded) -> None:
    done, results = graded({"a.py": WRONG, "b.py": RIGHT, "c.py": "def broken(:", "notes.txt": ""})
    assert done.returncode == 0 and "exit code 0" in done.stdout
    most = sum(test["max_score"] for test in results["tests"])
    assert results["score"] == pytest.approx(most, abs=1e-5)
    assert "Time ran out" not in results["output"]


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    """The same without the shell, in this process."""

    def ran(files: dict[str, str], plan: bytes | None = None) -> tuple[int, dict[str, Any]]:
        for folder in ("source", "submission"):
            (tmp_path / folder).mkdir()
        (tmp_path / "source" / "plan.json").write_bytes(plan or encode_plan(plan_of()))
        for name, text in files.items():
            (tmp_path / "submission" / name).write_text(text, encoding="utf-8")
        code = main(tmp_path)
        results = json.loads((tmp_path / "results" / "results.json").read_text(encoding="utf-8"))
        assert valid(results)
        return code, results

    return ran


Judged = Callable[..., tuple[int, dict[str, Any]]]


def test_wrong_answer_gets_an_explanation(judged: Judged) -> None:
    code, results = judged({"answer.py": WRONG})
    assert code == 1
    failed = [test for test in results["tests"] if test["status"] == "failed"]
    assert failed and any("expected" in test["output"] for test in failed)


def test_shows_only_what_the_instructor_chose(judged: Judged) -> None:
    hidden = frozenset({"it_equals_the_equation"})
    plan = plan_of()
    kept = Feedback(FeedbackLevel.NAME, hidden=hidden)
    quiet = AutograderPlan(replace(plan.manifest, feedback=kept))
    code, results = judged({"answer.py": WRONG}, encode_plan(quiet))
    assert code == 1 and decode_plan(encode_plan(quiet)).manifest.feedback == kept
    assert results["score"] < 82 and "hidden" in results["output"]
    told = json.dumps(results["tests"])
    assert "equals the equation" not in told and "expected" not in told
    assert results["execution_time"] == 0, "how long it took depends on what is hidden"


@pytest.mark.parametrize(
    ("files", "output"),
    [
        ({}, "There is nothing to grade"),
        ({"answer.txt": "text"}, "is no notebook and no module (.txt)"),
        ({"answer.py": "def broken(:"}, "nothing in this file can be used"),
        ({"answer.ipynb": "{"}, "not valid JSON"),
    ],
)
def test_ungradable_submission_gets_no_points(
    judged: Judged, files: dict[str, str], output: str
) -> None:
    code, results = judged(files)
    assert (code, results["score"]) == (1, 0)
    assert output in results["output"]


@pytest.mark.parametrize(
    ("statement", "status", "seconds"),
    [("while True: pass", "timed_out", 0.2), ("import os; os._exit(0)", "crashed", 1.0)],
)
def test_the_limits_are_those_of_every_run(
    judged: Judged, statement: str, status: str, seconds: float
) -> None:
    text = RIGHT.replace("# BEGIN SOLUTION", statement)
    plan = encode_plan(plan_of(limits={"total_s": 3 * seconds, "call_s": seconds}))
    code, results = judged({"answer.py": text}, plan)
    assert (code, results["score"]) == (1, 0)
    assert results["extra_data"][EXERCISE.slug]["status"] == status


def test_a_broken_plan_is_not_held_against_students(
    judged: Judged, capsys: pytest.CaptureFixture[str]
) -> None:
    code, results = judged({"answer.py": RIGHT}, b"{}")
    assert code == 2 and "missing required field" in capsys.readouterr().out
    assert "not a verdict on your work" in results["output"]


def test_internal_error_is_not_held_against_students(
    judged: Judged, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("1 / 0")

    monkeypatch.setattr(run, "create_sandbox", broken)
    code, results = judged({"answer.py": RIGHT})
    assert code == 2 and "ZeroDivisionError: 1 / 0" in capsys.readouterr().out
    assert "not a verdict on your work" in results["output"]


def test_timeout_before_a_verdict_is_reported(graded: Graded) -> None:
    done, results = graded({"answer.py": RIGHT}, HEADCHECK_SECONDS="0.01")
    assert done.returncode == 0 and "exit code 124" in done.stdout
    assert results["output"].startswith("Nothing was judged within 0.01 seconds")


def test_results_before_the_timeout_are_kept(
    graded: Graded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An interpreter that writes what a first file earned, and then hangs.
    slow = tmp_path / "slow"
    told = '{"score": 5, "output": "x", "tests": [], "visibility": "visible", "stdout_visibility"'
    slow.write_text(
        f"#!/bin/sh\necho '{told}: \"hidden\"}}' >{tmp_path}/autograder/results/results.json\n"
        "exec sleep 60\n"
    )
    slow.chmod(0o755)
    done, results = graded({}, HEADCHECK_PYTHON=str(slow), HEADCHECK_SECONDS="1")
    assert "exit code 124" in done.stdout and results["score"] == 5


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/false"])
def test_a_broken_installation_is_not_held_against_students(graded: Graded, python: str) -> None:
    done, results = graded({"answer.py": RIGHT}, HEADCHECK_PYTHON=python)
    assert done.returncode == 0
    assert "not a verdict on your work" in results["output"] and results["score"] == 0


def test_timeout_between_files_is_reported() -> None:
    assert _make_results([], 3)["output"].startswith("Time ran out before 3 of your files")


# ------------------------------------------------------------------------ installed


@pytest.mark.deep
def test_setup_installs_the_grader(tmp_path: Path) -> None:
    """All of setup.sh but the search for Python, with the packages that are here already."""
    root = tmp_path / "autograder"
    unpack(plan_of(), build_own_wheel(), root / "source")
    venv = root / "source" / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    here = [path for path in sys.path if path.endswith("-packages")]
    (there,) = venv.glob("lib/python*/site-packages")
    # So pip finds torch and all else, itself included, at its place, and installs headcheck alone;
    # an older one, where it is installed here as well.
    (there / "here.pth").write_text("\n".join(here))
    older = there / "headcheck-0.0.dist-info"
    older.mkdir()
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: headcheck\nVersion: 0.0\n")
    (older / "RECORD").write_text("".join(f"{older.name}/{n},,\n" for n in ("METADATA", "RECORD")))
    environment = {"PATH": os.environ["PATH"], "TORCH_INDEX": "", "PIP_NO_INDEX": "1"}
    done = subprocess.run(
        ["bash", root / "source" / "setup.sh"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "isolation level " in done.stdout, "the log says how submissions will be confined"
    assert (there / "headcheck").is_dir() and (venv / "bin" / "headcheck").exists()
    (root / "submission").mkdir()
    (root / "submission" / "answer.py").write_text(RIGHT, encoding="utf-8")
    subprocess.run(
        ["bash", root / "source" / "run_autograder", root],
        check=True, env={"PATH": os.environ["PATH"]}, cwd=tmp_path,
    )  # fmt: skip
    results = json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))
    most = sum(test["max_score"] for test in results["tests"])
    assert results["score"] == pytest.approx(most, abs=1e-5) and most > 0
