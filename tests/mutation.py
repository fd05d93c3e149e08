"""Which tests notice a small change of ours: `python -m tests.mutation [N] [MODULE ...]`.

Of each module N changes (3 unless told), spread over it, are made one at a time in a copy of the
repository. The ordinary tests that such a change needs (`tests/chosen.py`) run until the first that
fails, which is printed; a change that none notices is printed as a survivor. For equivalent changes
there is no list: read the survivors.
"""

import ast
import copy
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.chosen import choose_tests
from tests.git_changes import ROOT

MODULES = (
    "properties/bounds/attention.py",
    "properties/comparison.py",
    "properties/property.py",
    "grader/batch/plan.py",
    "grader/reading/cells.py",
    "grader/report/points.py",
    "grader/report/feedback.py",
    "grader/sandbox/wire.py",
    "grader/seed.py",
    "grader/course/intake/identity.py",
)
TIMEOUT_S = 300
COPIED = (
    ".ci",
    "reference",
    "properties",
    "exercises",
    "grader",
    "headcheck",
    "tests",
    "examples",
    "docs",
    "benchmarks",
)
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE,
    ast.LtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


def mutate(node: ast.AST) -> str:
    """Change a node in place where there is a way to; what was done, or nothing."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in FLIPPED:
            node.ops = [FLIPPED[type(op)]()]
            return "a comparison is turned round"
        case ast.BoolOp(op=op):
            node.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            return "and for or"
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            node.value = value + 1
            return f"{value} + 1"
        case ast.Constant(value=bool() as value):
            node.value = not value
            return f"not {value}"
        case ast.BinOp(op=ast.Add()):
            node.op = ast.Sub()
            return "- for +"
        case ast.BinOp(op=ast.Mult()):
            node.op = ast.Div()
            return "/ for *"
        case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=operand)):
            node.test = operand
            return "a `not` is dropped"
        case ast.Return(value=ast.expr()):
            node.value = ast.Constant(None)
            return "return None"
    return ""


def list_mutants(source: str) -> Iterator[tuple[str, str]]:
    """Every changed source, with what was changed on which line."""
    tree = ast.parse(source)
    in_functions = [
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for statement in function.body
        for node in ast.walk(statement)
    ]
    for place in dict.fromkeys(in_functions):
        before = copy.copy(place)
        if done := mutate(place):
            yield f"line {getattr(place, 'lineno', 0)}: {done}", ast.unparse(tree)
            place.__dict__.update(before.__dict__)


def select_tests(module: str) -> list[str]:
    """The test files that a change of a module needs, the shortest first."""
    return sorted(choose_tests([module]), key=lambda path: (ROOT / path).stat().st_size)


def run_tests(folder: Path, tests: list[str]) -> str:
    """The first test that fails in a copy, or how else the run ended; nothing if all pass."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            [*command, "--hypothesis-profile=ci"],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"more than {TIMEOUT_S} s"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    return "" if done.returncode == 0 else failed[1] if failed else "pytest did not start"


def try_module(folder: Path, module: str, count: int) -> tuple[int, int]:
    """Print who notices what; how many changes were noticed, of how many."""
    source, tests = (ROOT / module).read_text("utf-8"), select_tests(module)
    mutants = list(list_mutants(source))
    chosen = mutants[:: max(1, len(mutants) // count)][:count]
    noticed = 0
    for change, mutant in chosen:
        began = time.monotonic()
        (folder / module).write_text(mutant, "utf-8")
        seen = run_tests(folder, tests)
        noticed += bool(seen)
        took = time.monotonic() - began
        print(f"{module}  {change}  {seen or 'SURVIVES'}  ({took:.0f} s)", flush=True)
    (folder / module).write_text(source, "utf-8")
    return noticed, len(chosen)


def main(count: int, modules: list[str]) -> None:
    """Try so many changes of each module."""
    with tempfile.TemporaryDirectory(prefix="headcheck-mutation-") as name:
        folder = Path(name)
        for each in COPIED:
            shutil.copytree(ROOT / each, folder / each)
        for path in ROOT.glob("*.*"):
            if path.is_file():
                shutil.copy(path, folder)
        for words in (["init", "-q"], ["add", "-A"]):  # tests ask git which files there are
            subprocess.run(["git", *words], cwd=folder, check=True)
        ends = [try_module(folder, module, count) for module in modules]
    print(f"{sum(n for n, _ in ends)} of {sum(n for _, n in ends)} changes were noticed")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    named = [word for word in sys.argv[1:] if not word.isdigit()]
    main(numbers[0] if numbers else 3, named or list(MODULES))
