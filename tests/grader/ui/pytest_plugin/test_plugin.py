"""The pytest plugin as its users meet it: in a pytest of its own, in a folder of their own."""

import shlex
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from headcheck.grader.ui.pytest_plugin import plugin
from tests.interpreter import run_python

pytest_plugins = ["pytester"]
Run = Callable[..., pytest.RunResult]

RIGHT = """
import torch

def attend(x):
    return torch.softmax(x @ x.mT, dim=-1) @ x
"""
EVEN = RIGHT.replace("    return", "    assert x.shape[1] % 2 == 0\n    return")
KEYS_LOST = RIGHT.replace("x @ x.mT", "(x @ x.mT)[:1, :1]")
FLOAT32 = RIGHT.replace("dim=-1)", "dim=-1, dtype=torch.float32).to(x.dtype)")
DOUBLED = RIGHT.replace("x @ x.mT", "2 * x @ x.mT")
COLUMNS = RIGHT.replace("dim=-1", "dim=-2")
LATE = RIGHT.replace("@ x\n", "@ x + 0.1 * (len(x) > 40)\n")
OTHER = "def test_of_their_own(): pass"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest in this process, which has torch already."""
    pytester.syspathinsert()
    return make_run(pytester.runpytest_inprocess, monkeypatch)


@pytest.fixture
def run_apart(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs it in a process of its own, which has no settings and examples of Hypothesis yet."""
    return make_run(pytester.runpytest_subprocess, monkeypatch)


def make_run(start: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("PYTHONPATH", str(Path(plugin.__file__).parents[4]))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # the same on a machine that has one
    installed = any(found.value == plugin.__name__ for found in entry_points(group="pytest11"))
    loaded = () if installed else ("-p", plugin.__name__)

    def run(name: str, *options: str, slug: str = "simplified_attention") -> pytest.RunResult:
        asked = ("--headcheck", name, "--exercise", slug)
        cases = () if "--headcheck-cases" in options else ("--headcheck-cases", "bank")
        return start(*loaded, *asked, *cases, *options)

    return run


def failures(result: pytest.RunResult) -> set[str]:
    lines = [line.split(" - ")[0] for line in result.outlines]
    return {line.removeprefix("FAILED ") for line in lines if line.startswith("FAILED ")}


def test_a_right_answer_passes_with_its_notes_and_skips_devices_that_are_not_there(
    run: Run, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(mine=FLOAT32, test_other=OTHER)
    result = run("mine:attend", "--device", "cpu", "--device", "cuda", "-rs", "-v")
    assert result.ret == 0
    outcomes = result.parseoutcomes()
    assert set(outcomes) == {"passed", "skipped"}
    assert outcomes["passed"] == outcomes["skipped"] > 20
    result.stdout.fnmatch_lines(["headcheck: mine:attend as simplified_attention, on*"])
    result.stdout.fnmatch_lines(["headcheck::it_equals_the_equation[[]cpu-float64] PASSED*"])
    result.stdout.fnmatch_lines(["*headcheck notes*", "*only as exact as float32*"])
    result.stdout.fnmatch_lines(["SKIPPED*needs a CUDA device: *"])
    result.stdout.no_fnmatch_line("*test_other*")


def test_mistakes_that_explain_the_failures_are_named(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(mine=COLUMNS)
    some = ("-k", "equation or kept", "-rs")
    result = run("mine:attend", *some)
    result.stdout.fnmatch_lines(
        ["*= mine:attend as simplified_attention =*", "One mistake was found; *", "  The softmax *"]
    )
    result.stdout.fnmatch_lines(["SKIPPED * headcheck:1: not tried, because of it_equals_the_eq*"])
    (pytester.path / "course.toml").write_text('feedback = "message"\n')
    result = run("mine:attend", *some, "--course", "course.toml")
    assert result.ret == 1
    result.stdout.no_fnmatch_line("One mistake was found*")


@pytest.mark.whole
def test_wrong_answer_fails_with_only_the_violation(
    run_apart: Run, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(mine=DOUBLED, test_other=OTHER)
    asked = ("mine.py:attend", "test_other.py", "-k", "other or equation or kept or streaming")
    alone = run_apart(*asked, "-p", "no:xdist")
    assert alone.ret == 1
    alone.stdout.fnmatch_lines(
        [
            "*_ it_equals_the_equation[[]cpu-float64] _*",
            "Fails: The output equals the equation, computed in float64.",
            "  expected  * at output*",
            "  got       *",
            "  on        tokens=* float64 cpu seed=*",
            "  hint      *",
        ]
    )
    alone.stdout.fnmatch_lines(["test_other.py .*"])
    for ours in ("*Traceback*", "*plugin.py*", "*suite.py*", "*def runtest*"):
        alone.stdout.no_fnmatch_line(ours)
    shared = run_apart(*asked, "-n", "2")
    assert shared.ret == 1
    assert failures(shared) == failures(alone) != set()
    for outcome in ("passed", "failed", "skipped"):
        assert shared.parseoutcomes()[outcome] == alone.parseoutcomes()[outcome]


PROFILE = """
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase
kept = DirectoryBasedExampleDatabase("found")
settings.register_profile("mine", max_examples=60, database=kept, derandomize=False)
"""
SEARCH = ("--headcheck-cases", "both", "--hypothesis-profile", "mine", "--hypothesis-seed", "1")


@pytest.mark.whole
def test_search_prints_a_line_that_replays(run_apart: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(mine=LATE)
    pytester.makeconftest(PROFILE)
    alone = run_apart("mine.py:attend", *SEARCH, "-k", "equation", "-p", "no:xdist")
    assert alone.ret == 1
    alone.stdout.fnmatch_lines(
        ["headcheck: mine.py:attend as *, on up to 24 cases of the bank and 60 examples*"]
    )
    alone.stdout.fnmatch_lines(["  on        tokens=41 d=1 float64 cpu seed=0"])
    for noise in ("*Falsifying example*", "*reproduce*", "*Traceback*", "*BaseExceptionGroup*"):
        alone.stdout.no_fnmatch_line(noise)
    line = next(line for line in alone.outlines if line.startswith("  replay "))
    program, *arguments = shlex.split(line.removeprefix("  replay "))
    assert program == "headcheck"
    replayed = run_python("-m", "headcheck", *arguments)
    assert (replayed.returncode, replayed.stderr) == (1, "")
    assert set(replayed.stdout.splitlines()) < set(alone.outlines)
    pytester.makepyfile(mine=RIGHT)
    replayed = run_python("-m", "headcheck", *arguments)
    assert (replayed.returncode, replayed.stderr) == (0, "")
    assert replayed.stdout.startswith("holds: The output equals the equation")


@pytest.mark.whole
def test_search_ends_alike_in_two_processes_and_keeps_its_examples(
    run_apart: Run, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(mine=LATE)
    pytester.makeconftest(PROFILE)
    asked = ("mine.py:attend", *SEARCH, "-k", "equation or device_is_kept or finite")
    alone = run_apart(*asked, "-p", "no:xdist", "--hypothesis-show-statistics")
    alone.stdout.fnmatch_lines(["*it_equals_the_equation[[]cpu-float64]:*"])
    # With a seed of its own Hypothesis leaves the database alone.
    assert not (pytester.path / "found").exists()
    assert run_apart("mine.py:attend", *SEARCH[:4], "-k", "equation", "-p", "no:xdist").ret == 1
    assert any((pytester.path / "found").rglob("*"))
    shared = run_apart(*asked, "-n", "2")
    assert failures(shared) == failures(alone) != set()
    assert shared.parseoutcomes()["passed"] == alone.parseoutcomes()["passed"] > 3


@pytest.mark.whole
def test_sizes_are_kept_by_the_bank_and_by_the_search(
    run_apart: Run, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(mine=EVEN)
    pytester.makeconftest(PROFILE)
    asked = ("mine.py:attend", *SEARCH, "-k", "equation or refused or finite")
    refused = run_apart(*asked)
    assert {name.split("[")[0] for name in failures(refused)} == {"headcheck::no_case_is_refused"}
    refused.stdout.fnmatch_lines(
        ["  hint      *--headcheck-sizes", "  refused   * of * cases; the*"]
    )
    assert run_apart(*asked, "--headcheck-sizes", "d_in=even").ret == 0


@pytest.mark.whole
def test_dependants_of_a_failed_property_are_not_tried(
    run_apart: Run, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(mine=KEYS_LOST.replace("@ x\n", "@ x[:1, :, None]\n"))
    result = run_apart("mine:attend", "-rfs", "-k", "shape or equation")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["SKIPPED*not tried, because of the_output_has_the_right_shape[[]cpu-float64]"]
    )
    assert {name.split("[")[0] for name in failures(result)} == {
        "headcheck::the_output_has_the_right_shape"
    }


MISNAMED = [
    (["mine:atend"], "simplified_attention", "mine defines no `atend`; did you mean `attend`?"),
    (["mine:attend"], "simplifed_attention", "did you mean simplified_attention?"),
    (["mine:attend", "--device", "tpu"], "", "`tpu` is none of cpu, cuda, cuda:N, mps"),
    (["mine:attend", "--headcheck-sizes", "d_in"], "simplified_attention", "or tokens>=2"),
]


@pytest.mark.sampled(("arguments", "slug", "message"), MISNAMED, MISNAMED[:1])
def test_a_wrong_name_is_a_usage_error(
    run_apart: Run, pytester: pytest.Pytester, arguments: list[str], slug: str, message: str
) -> None:
    pytester.makepyfile(mine=RIGHT)
    result = run_apart(*arguments, slug=slug)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line.endswith(message)]
    result.stderr.no_fnmatch_line("*Traceback*")


def test_the_bank_and_the_search_are_all_that_can_be_asked_for(
    run: Run, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(mine=RIGHT)
    result = run("mine:attend", "--headcheck-cases", "6")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*argument --headcheck-cases: invalid choice: '6' (choose*"])


def test_nothing_heavy_is_imported_before_anyone_asks() -> None:
    script = "import sys, headcheck.grader.ui.pytest_plugin.plugin as _; print(*sys.modules)"
    heavy = {"torch", "hypothesis", "headcheck.reference", "headcheck.properties.property"}
    found = run_python("-c", script)
    assert found.returncode == 0
    assert not (heavy | {"headcheck.exercises"}) & set(found.stdout.split())


# ------------------------------------------------------------------------- the course file

EXAM = """
feedback.level = "%s"
feedback.hidden = ["precision", "it_attends"]
"""


LEVELS: list[tuple[str, list[str], list[str]]] = [
    ("name", [], ["  got *", "  hint *", "  on *", "*replay-case*"]),
    ("message", ["  got *", "  hint *"], ["  expected *", "  on *", "*replay-case*"]),
    ("case", ["  expected *", "  got *", "  on *"], ["*replay-case*"]),
    ("full", ["  expected *", "  on *", "  replay *"], []),
]


@pytest.mark.sampled(("feedback", "told", "withheld"), LEVELS, LEVELS[1:2])
def test_the_level_of_an_exam_binds_this_too(
    run: Run, pytester: pytest.Pytester, feedback: str, told: list[str], withheld: list[str]
) -> None:
    pytester.makepyfile(mine=DOUBLED)
    (pytester.path / "headcheck.toml").write_text(EXAM % feedback)
    result = run("mine.py:attend", "-k", "equation or float32 or attends", "-p", "no:xdist")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["headcheck: * checks are not shown, and not run here"])
    result.stdout.fnmatch_lines(["Fails: The output equals the equation, *", *told])
    for line in (*withheld, "*float32_is_exact*", "*it_attends*"):
        result.stdout.no_fnmatch_line(line)


@pytest.mark.whole
def test_a_search_withholds_the_case_too(run_apart: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(mine=LATE)
    pytester.makeconftest(PROFILE)
    (pytester.path / "exam.toml").write_text('feedback = "message"\n')
    options = ("--course", "exam.toml", "--hypothesis-verbosity", "verbose", "-p", "no:xdist")
    result = run_apart("mine.py:attend", *SEARCH, "-k", "equation", *options)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["Fails: The output equals the equation, *", "  got *"])
    for line in ("  on *", "*tokens=41*", "*replay-case*"):
        result.stdout.no_fnmatch_line(line)


@pytest.mark.whole
def test_a_bad_course_file_ends_the_run(run_apart: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(mine=RIGHT)
    course = pytester.path / "headcheck.toml"
    course.write_text("feedback = 'nam'\n")
    result = run_apart("mine.py:attend")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --headcheck: headcheck.toml, line 1: there is no level*"])
    result = run_apart("mine.py:attend", "--course", "no.toml")
    result.stderr.fnmatch_lines(["ERROR: --course: no.toml, line 1: there is no such file*"])
