"""Which tests notice a small change of ours: `python -m tests.mutation [N] [MODULE ...]`.

Of each module N changes (3 unless told), spread over it, are made one at a time in a copy of the
repository. The ordinary tests that such a change needs (`tests/chosen.py`) run until the first that
fails, which is printed. A change that none notices, or none within twenty minutes, is printed as a
survivor. For equivalent changes there is no list: read the survivors.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headcheck.grader.audit.mutants import list_mutations
from headcheck.grader.reading.edits import edit_text
from tests.chosen import choose_tests
from tests.git_changes import ROOT

MODULES = (
    "reference/attention.py",
    "properties/bounds/attention.py",
    "properties/families/masking.py",
    "properties/cases/case_set.py",
    "properties/binding/layouts.py",
    "properties/binding/masks.py",
    "properties/mistakes/recognisers/answers.py",
    "properties/comparison.py",
    "exercises/contract_file.py",
    "grader/authoring/answers.py",
    "grader/batch/plan.py",
    "grader/course/intake/identity.py",
    "grader/course/policy.py",
    "grader/course/export/gradebook.py",
    "grader/grading/attempts.py",
    "grader/grading/places/matching.py",
    "grader/grading/open_mode/residuals.py",
    "grader/reading/cells.py",
    "grader/report/points.py",
    "grader/sandbox/wire.py",
)
"""one or more of each room"""
TIMEOUT_S = 1200
NOT_COPIED = (".git", ".tox", ".venv", ".*_cache", ".hypothesis", "build", "dist", "__pycache__")


def list_mutants(source: str) -> list[tuple[str, str]]:
    """Every source that one change of those for solutions makes, with the change and its line."""
    changes = list_mutations(source, None)
    return [(f"line {edit.line}: {change}", edit_text(source, edit)) for change, edit in changes]


def select_tests(module: str) -> list[str]:
    """The test files that a change of a module needs, the shortest first."""
    return sorted(choose_tests([module]), key=lambda path: (ROOT / path).stat().st_size)


def run_tests(folder: Path, tests: list[str]) -> str:
    """The first test that fails in a copy; nothing if all pass, or all within the time."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    environment["HEADCHECK_BASE"] = "HEAD"  # the module counts as changed
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            [*command, "--hypothesis-profile=ci"],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    return "" if done.returncode == 0 else failed[1] if failed else "pytest did not start"


def try_module(folder: Path, module: str, count: int) -> tuple[int, int]:
    """Print who notices what; how many changes were noticed, of how many."""
    source, tests = (ROOT / module).read_text("utf-8"), select_tests(module)
    mutants = list_mutants(source)
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
        left_out = shutil.ignore_patterns(*NOT_COPIED)
        shutil.copytree(ROOT, folder, symlinks=True, ignore=left_out, dirs_exist_ok=True)
        # Tests ask git which files there are, and which changed.
        for words in ("init -q", "add -A", "-c user.name=a -c user.email=a commit -qm copy"):
            subprocess.run(["git", *words.split()], cwd=folder, check=True)
        ends = [try_module(folder, module, count) for module in modules]
    print(f"{sum(n for n, _ in ends)} of {sum(n for _, n in ends)} changes were noticed")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    named = [word for word in sys.argv[1:] if not word.isdigit()]
    main(numbers[0] if numbers else 3, named or list(MODULES))
