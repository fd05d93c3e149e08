"""Attention that answers no exercise: by a contract file, or as what it is; several at once."""

import shlex
from pathlib import Path

import pytest

from headcheck.grader.ui.cli import main
from headcheck.grader.ui.pytest_plugin.target import load_target
from headcheck.grader.ui.pytest_plugin.target_settings import (
    BadTarget,
    Setting,
    TargetSettings,
    read_targets,
)
from tests.grader.ui.pytest_plugin.test_plugin import failures
from tests.interpreter import run_python

pytest_plugins = ["pytester"]

MODULE = """
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        packed = self.qkv(x).unflatten(-1, (3, self.num_heads, -1))
        q, k, v = packed.permute(2, 0, 3, 1, 4)
        mixed = torch.softmax(q @ k.mT / q.shape[-1]**0.5, -1) @ v
        return self.proj(mixed.transpose(1, 2).flatten(-2))
"""
UNSCALED = MODULE.replace(" / q.shape[-1]**0.5", "")
CONTRACT = """
title = "ours"
name = "Attention"
capabilities = ["full", "batch", "bias", "stable"]
square = true

[arguments]
dim = "d_out"
num_heads = "heads"

[parameters]
"qkv.weight" = ["W_q", "W_k", "W_v"]
"qkv.bias" = ["b_q", "b_k", "b_v"]
"proj.weight" = "W_o"
"proj.bias" = "b_o"
"""
PROJECT = """
[tool.headcheck.targets."right:Attention"]
contract = "ours.toml"
sizes = "head_dim=even tokens<=64"

[tool.headcheck.targets."wrong:Attention"]
"""
FEW = ("--headcheck-cases", "bank", "-k", "equation or refused", "-p", "no:xdist")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
    pytester.makepyfile(right=MODULE, wrong=UNSCALED)
    (pytester.path / "ours.toml").write_text(CONTRACT)
    (pytester.path / "pyproject.toml").write_text(PROJECT)
    return pytester.path


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    pytester.syspathinsert()
    return pytester.runpytest_inprocess("-p", "headcheck", *options)


@pytest.mark.whole
def test_a_contract_file_is_enough(project: Path, pytester: pytest.Pytester) -> None:
    (project / "pyproject.toml").unlink()
    right = run(pytester, "--headcheck", "right:Attention", "--contract", "ours.toml", *FEW)
    assert right.ret == 0
    right.stdout.fnmatch_lines(["headcheck: right:Attention by ours.toml, on *"])
    right.stdout.no_fnmatch_line("*assumed*")
    wrong = run(pytester, "--headcheck", "wrong:Attention", "--contract", "ours.toml", *FEW)
    assert {name.split("[")[0] for name in failures(wrong)} == {"headcheck::it_equals_the_equation"}
    wrong.stdout.fnmatch_lines(["Fails: The output equals the equation, *"])
    wrong.stdout.fnmatch_lines(["One mistake was found; *", "  The scores are not divided by *"])
    line = next(line for line in wrong.outlines if line.startswith("  replay "))
    replayed = run_python("-m", *shlex.split(line.removeprefix("  replay ")))
    assert " --contract ours.toml " in line
    assert (replayed.returncode, replayed.stderr) == (1, "")


@pytest.mark.whole
def test_what_a_contract_waives_is_skipped_and_what_depends_on_it_is_tried(
    project: Path, pytester: pytest.Pytester
) -> None:
    (project / "pyproject.toml").unlink()
    waived = "the_output_has_the_right_shape"
    (project / "ours.toml").write_text(f'waived = ["{waived}"]\n{CONTRACT}')
    few = ("--headcheck-cases", "bank", "-k", f"equation or {waived}", "-p", "no:xdist", "-rs")
    result = run(pytester, "--headcheck", "right:Attention", "--contract", "ours.toml", *few)
    result.assert_outcomes(passed=3, skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED * not asked for: the contract waives it"])


@pytest.mark.whole
def test_without_a_contract_a_class_is_judged_as_what_it_computes(
    project: Path, pytester: pytest.Pytester
) -> None:
    (project / "pyproject.toml").unlink()
    result = run(pytester, "--headcheck", "right.py:Attention", *FEW, "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*right.py:Attention, recognised as multi-head self-attention with an output layer*",
            "assumed: `Attention` takes `dim`, * `num_heads`, the number of heads",
            "assumed: every token sees every other: *",
        ]
    )
    wrong = run(pytester, "--headcheck", "wrong.py:Attention", *FEW, "-q")
    assert {name.split("[")[0] for name in failures(wrong)} == {"headcheck::it_equals_the_equation"}


@pytest.mark.whole
def test_a_function_is_judged_as_what_it_computes(project: Path, pytester: pytest.Pytester) -> None:
    (project / "pyproject.toml").unlink()
    (project / "scores.py").write_text(
        "def attend(q, k, v):\n    return (q @ k.mT / q.shape[-1]**0.5).softmax(-1) @ v\n"
    )
    result = run(pytester, "--headcheck", "scores:attend", *FEW, "-q")
    assert result.ret == 0
    shape = "(batch, heads, tokens, width)"
    result.stdout.fnmatch_lines([f"assumed: its inputs have the shape {shape}"])


@pytest.mark.whole
def test_the_targets_of_a_project(project: Path, pytester: pytest.Pytester) -> None:
    result = run(pytester, "--headcheck-targets", *FEW)
    assert {name.split("[")[0] for name in failures(result)} == {
        "headcheck::wrong:Attention::it_equals_the_equation"
    }
    result.stdout.fnmatch_lines(["*_ wrong:Attention it_equals_the_equation[[]cpu-float64] _*"])
    line = next(line for line in result.outlines if line.startswith("headcheck: right"))
    assert " by ours.toml, " in line
    named = run(pytester, "--headcheck", "right:Attention", *FEW)
    assert named.ret == 0
    named.stdout.fnmatch_lines(["headcheck: right:Attention by ours.toml, *"])


def test_options_count_more_than_the_project() -> None:
    said = TargetSettings(
        Setting("a:B", "toml"), contract=Setting("b.toml", "toml"), sizes=Setting("heads=1", "toml")
    )
    exercise = Setting("causal_attention", "--exercise")
    both = said.override({"exercise": exercise})
    assert (both.contract, both.exercise, both.sizes) == (None, exercise, said.sizes)
    sizes = Setting("heads=2", "--headcheck-sizes")
    assert said.override({"sizes": sizes}).contract == said.contract


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("targets = 3", "pyproject.toml: tool.headcheck.targets: must be a table, not 3"),
        ("target = {}", "tool.headcheck.target: there is no such key; did you mean `targets`?"),
        ("targets.'a:B' = 'c.toml'", 'tool.headcheck.targets."a:B": must be a table, not c.toml'),
        (
            "targets.'a:B'.contrct = 'c.toml'",
            'tool.headcheck.targets."a:B".contrct: there is no such key; did you mean `contract`?',
        ),
        (
            "targets.'a:B'.seed = 3",
            '"a:B".seed: there is no such key; there are contract, exercise, sizes',
        ),
        ("targets.'a:B'.sizes = 3", '"a:B".sizes: must be a text in quotes, not 3'),
        ("targets = [", "pyproject.toml, line 2: is not TOML: "),
        (f"targets = 1{'0' * 5000}", "line 2: is not TOML: a whole number has at most 64 bits"),
    ],
)
def test_a_mistake_in_the_table_is_named_by_its_key(
    tmp_path: Path, table: str, message: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.headcheck]\n{table}\n")
    with pytest.raises(BadTarget) as raised:
        read_targets(tmp_path)
    assert message in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"contract": "gone.toml"}, "here.contract: gone.toml: there is no such file: name a"),
        ({"exercise": "zzz"}, "here.exercise: there is no exercise 'zzz'; see"),
        (
            {"exercise": "causal_attention", "contract": "c.toml"},
            "here.exercise: it has a contract, too: leave one of them out",
        ),
        ({"sizes": "width=3"}, "here.sizes: `width` is no size"),
        ({"name": "torch.nn:Attention"}, "here.name: torch.nn defines no `Attention`"),
        (
            {"name": "torch:float64"},
            "torch:float64 is no class with a `forward`, and no function: say what is asked",
        ),
        ({"name": "json:dumps"}, "json:dumps is not recognised by what it computes"),
        ({"name": "torch.nn:GELU"}, "torch.nn:GELU is not recognised by what it computes"),
    ],
)
def test_what_cannot_be_tried_is_one_line(changes: dict[str, str], message: str) -> None:
    said = {"name": "torch.nn:MultiheadAttention", **changes}
    settings = {key: Setting(text, f"here.{key}") for key, text in said.items()}
    with pytest.raises(BadTarget) as raised:
        load_target(TargetSettings(**settings))
    assert message in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--contract", "a.toml"], "--contract needs --headcheck to say what is to be tried"),
        (["--headcheck-targets"], "--headcheck-targets: there is no [[]tool.headcheck.targets]"),
        (
            ["--headcheck", "a:B", "--headcheck", "c:D", "--contract", "e.toml"],
            "--contract: is of one implementation, and 2 are named: write it for each in *",
        ),
    ],
)
def test_options_that_do_not_go_together(
    pytester: pytest.Pytester, options: list[str], message: str
) -> None:
    result = run(pytester, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


VERIFIED = [
    (["right:Attention", "--contract", "ours.toml"], 0, "passed"),
    (["wrong:Attention", "--sizes", "heads=2"], 1, "expected  scores scaled by 1/√"),
    (["right:Attention", "--device", "cuda:9"], 2, "skipped"),
    (["gone:Attention"], 2, ""),
]


@pytest.mark.sampled(("arguments", "code", "said"), VERIFIED, VERIFIED[1:2])
def test_verify(
    project: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k 'refused or root_of_the_head'")
    monkeypatch.setattr("sys.argv", ["headcheck", "verify", *arguments, "--cases", "bank"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert said in capfd.readouterr().out
