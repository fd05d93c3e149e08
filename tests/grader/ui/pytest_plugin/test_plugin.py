"""The pytest plugin as its users meet it: in a pytest of its own, in a folder of their own."""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from grader.ui.pytest_plugin import plugin

pytest_plugins = ["pytester"]
Run = Callable[..., pytest.RunResult]

RIGHT = """
import torch

def attend(x):
    return torch.softmax(x @ x.mT, dim=-1) @ x
"""
FLOAT32 = RIGHT.replace("dim=-1)", "dim=-1, dtype=torch.float32).to(x.dtype)")
DOUBLED = RIGHT.replace("x @ x.mT", "2 * x @ x.mT")
KEYS_LOST = RIGHT.replace("x @ x.mT", "(x @ x.mT)[:1, :1]")
OTHER = "def test_of_their_own(): pass"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("PYTHONPATH", str(Path(plugin.__file__).parents[3]))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # the same on a machine that has one
    installed = any(found.value == plugin.__name__ for found in entry_points(group="pytest11"))
    loaded = () if installed else ("-p", plugin.__name__)

    def run(name: str, *options: str, slug: str = "simplified_attention") -> pytest.RunResult:
        asked = ("--headcheck", name, "--exercise", slug, "--headcheck-cases", "6")
        return pytester.runpytest_subprocess(*loaded, *asked, *options)

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


def test_wrong_answer_fails_with_only_the_violation(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(mine=DOUBLED, test_other=OTHER)
    asked = ("mine.py:attend", "test_other.py", "-k", "other or equation or kept or streaming")
    alone = run(*asked, "-p", "no:xdist")
    assert alone.ret == 1
    alone.stdout.fnmatch_lines(
        [
            "*_ it_equals_the_equation[[]cpu-float64] _*",
            "The output equals the equation of the statement, computed in float64.",
            "  expected  * at output*",
            "  got       *",
            "  on        tokens=* float64 cpu seed=*",
            "  hint      *",
        ]
    )
    alone.stdout.fnmatch_lines(["test_other.py .*"])
    for ours in ("*Traceback*", "*plugin.py*", "*suite.py*", "*def runtest*"):
        alone.stdout.no_fnmatch_line(ours)
    shared = run(*asked, "-n", "2")
    assert shared.ret == 1
    assert failures(shared) == failures(alone) != set()
    for outcome in ("passed", "failed", "skipped"):
        assert shared.parseoutcomes()[outcome] == alone.parseoutcomes()[outcome]


def test_dependants_of_a_failed_property_are_not_tried(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(mine=KEYS_LOST.replace("@ x\n", "@ x[:1, :, None]\n"))
    result = run("mine:attend", "-rfs", "-k", "shape or equation")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["SKIPPED*not tried, because of the_output_has_the_right_shape[[]cpu-float64]"]
    )
    assert {name.split("[")[0] for name in failures(result)} == {
        "headcheck::the_output_has_the_right_shape"
    }


@pytest.mark.parametrize(
    ("arguments", "slug", "message"),
    [
        (["mine:atend"], "simplified_attention", "mine defines no `atend`; did you mean `attend`?"),
        (["mine:attend"], "simplifed_attention", "did you mean `simplified_attention`?"),
        (["mine:attend", "--device", "tpu"], "", "`tpu` is none of cpu, cuda, cuda:N, mps"),
    ],
)
def test_a_wrong_name_is_a_usage_error(
    run: Run, pytester: pytest.Pytester, arguments: list[str], slug: str, message: str
) -> None:
    pytester.makepyfile(mine=RIGHT)
    result = run(*arguments, slug=slug)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line.endswith(message)]
    result.stderr.no_fnmatch_line("*Traceback*")


def test_nothing_heavy_is_imported_before_anyone_asks() -> None:
    script = "import sys, grader.ui.pytest_plugin.plugin as _; print(*sys.modules)"
    root = str(Path(plugin.__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": root}
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert not {"torch", "hypothesis", "reference", "properties", "exercises"} & set(
        found.stdout.split()
    )
