"""What the README says is so: its commands, its tables, its blocks."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import headcheck
from headcheck.exercises import BY_SLUG
from headcheck.grader.report import course_file, points
from headcheck.properties.property import PropertyGroup

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
# Where the rooms are: in the checkout, or installed.
ROOMS = str(Path(headcheck.__path__[0]).parent)
FEW = "--headcheck-cases=bank"  # enough to show that it runs
PROGRAMS = Path(sys.executable).parent
IS_PLAIN = "HEADCHECK_PLAIN" in os.environ  # as the tox environment docs says
needs_plain = pytest.mark.skipif(
    not IS_PLAIN, reason="the environment is not that of the README: tox -e docs"
)
GROUPED = """
import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        cut = lambda t, n: t.unflatten(-1, (n, self.head_dim)).transpose(1, 2)
        q = turn(cut(self.wq(x), self.n_heads))
        k = turn(cut(self.wk(x), self.n_kv_heads))
        v = cut(self.wv(x), self.n_kv_heads)
        k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for t in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(out.transpose(1, 2).flatten(2))


def turn(t):
    n, d = t.shape[-2:]
    pairs = torch.arange(0, d, 2, device=t.device, dtype=torch.float64)
    places = torch.arange(n, device=t.device, dtype=torch.float64)
    angles = torch.outer(places, 10_000 ** (-pairs / d)).repeat(1, 2)
    half = torch.cat([-t[..., d // 2 :], t[..., : d // 2]], dim=-1)
    return (t * angles.cos().to(t.dtype) + half * angles.sin().to(t.dtype))
"""
"""a class that keeps the contract of the README"""
EXTRAS = ("student", "ci")
"""what is installed for those who try the commands of students and libraries"""
# Without an installation there is no entry point.
COMMANDS = (
    {"headcheck": [str(PROGRAMS / "headcheck")], "pytest": [str(PROGRAMS / "pytest"), FEW]}
    if IS_PLAIN
    else {
        "headcheck": [sys.executable, "-m", "headcheck"],
        "pytest": [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "headcheck.grader.ui.pytest_plugin.plugin",
            FEW,
        ],
    }
)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def dialogues(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands in the console blocks, each with the lines that it is shown to print."""
    for block in blocks(text, "console"):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *lines = part.splitlines()
            yield command, [line for line in lines if line.strip() not in ("", "…")]


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(command)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    if not IS_PLAIN:
        environment |= {"PYTHONPATH": ROOMS, "PYTHONSAFEPATH": "1"}
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the plugin is named in COMMANDS
    return subprocess.run(
        [*COMMANDS[program], *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to write into, from which the README's paths lead to the same files."""
    for name in ("examples", "exercises", "tests", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def test_continuous_integration_runs_the_tests_as_the_readme_does() -> None:
    grading, testing = blocks(README, "bash")
    assert testing.strip() in (ROOT / ".ci" / "run").read_text().splitlines()
    assert "headcheck grade examples/class --out report" in grading


@needs_plain
def test_nothing_is_installed_but_what_the_readme_installs() -> None:
    needed, found = ["headcheck"], {"pip"}
    while needed:
        name = canonicalize_name(needed.pop())
        if name not in found:
            found.add(name)
            for each in map(Requirement, metadata.requires(name) or ()):
                if each.marker is None or any(
                    each.marker.evaluate({"extra": extra}) for extra in ("", *EXTRAS)
                ):
                    needed.append(each.name)
    there = {canonicalize_name(each.name) for each in metadata.distributions()}
    assert there - found == set()


@needs_plain
def test_a_checkout_is_verified_without_what_its_own_tests_need(folder: Path) -> None:
    target = "exercises/simplified_attention/solution.py:simplified_attention"
    done = run(f"headcheck verify {target} --exercise simplified_attention --cases bank", folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_contract_of_the_readme_is_kept_by_such_a_class(folder: Path) -> None:
    contract = next(block for block in blocks(README, "toml") if "n_kv_heads" in block)
    (folder / "attention.contract.toml").write_text(contract)
    (folder / "attention.py").write_text(GROUPED)
    command = "pytest --headcheck attention.py:Attention --contract attention.contract.toml -q"
    done = run(command, folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_documented_output_matches(folder: Path) -> None:
    codes = {}
    for command, lines in dialogues(README):
        done = run(command, folder)
        # The starter has not been worked on, and the example is wrong: that is no 2.
        assert done.returncode in (0, 1), f"{command}\n{done.stdout}{done.stderr}"
        printed = done.stdout.splitlines()
        assert [line for line in lines if line not in printed] == [], f"paste anew: {command}"
        codes[shlex.split(command)[1]] = done.returncode
        if " start " in command:  # and then a student writes this
            shutil.copy(ROOT / "examples/class/alan_turing.ipynb", folder / printed[0].split()[1])
    assert codes == {"check": 1, "start": 0, "show": 0, "audit": 0}


def test_course_file_example_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "headcheck.toml"
    path.write_text(blocks(README, "toml")[0])
    course = course_file.read_course_file(path)
    given = course.points
    exercise = BY_SLUG["multi_head_attention"]
    worth = points.distribute_points(exercise, given)
    assert given == tomllib.loads(path.read_text())["points"]
    assert sum(w for p, w in worth.items() if p.group is PropertyGroup.VALUES) == pytest.approx(40)
    assert sum(w for p, w in worth.items() if p.group is PropertyGroup.DROPOUT) == 0


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 185  # three readers, a screen each


def test_architecture_example_checks_a_class(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks(ARCHITECTURE, "python")
    exec(compile(block, "docs/architecture.md", "exec"), {"__name__": "block"})
    assert "The output equals the equation" in capsys.readouterr().out
