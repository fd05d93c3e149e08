"""Whoever follows CONTRIBUTING.md arrives, and changes the files that it names and no others.

Each addition is made in a copy of the repository. What has to be judged for it is marked deep.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def named(section: str, label: str) -> list[str]:
    """The files that a section of the guide says are written, or made."""
    part = GUIDE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = re.search(rf"^{label}: (.*?)\.$", part, re.M | re.S)
    return re.findall(r"`([^`]+)`", found[1]) if found else []


def covers(pattern: str, path: str) -> bool:
    """Whether a file is one that the guide means: `<slug>` is any name, `folder/` all below it."""
    regex = re.sub(r"<\w+>", "[^/]+", pattern.replace(".", r"\."))
    return re.fullmatch(f"{regex}.*" if pattern.endswith("/") else regex, path) is not None


@dataclass(frozen=True)
class Checkout:
    """A copy of the repository to make additions in."""

    folder: Path

    def run(self, *command: str, returns: int = 0) -> str:
        """What a program of the project prints; `python` is this one."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "GIT_"))}
        environment |= {"PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        done = subprocess.run(
            [sys.executable if part == "python" else part for part in command],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == returns, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout

    def make(self, module: str, page: str) -> None:
        """`python -m module > page`, as the guide says."""
        assert f"python -m {module} > {page}" in GUIDE
        (self.folder / page).write_text(self.run("python", "-m", module), encoding="utf-8")

    def insert(self, path: str, before: str, text: str) -> None:
        """Write text into a file, before the first place where something stands."""
        written = (self.folder / path).read_text(encoding="utf-8")
        assert before in written
        self.write(path, written.replace(before, text + before, 1))

    def write(self, path: str, text: str) -> None:
        (self.folder / path).write_text(text, encoding="utf-8")

    def must_have_changed(self, section: str, *, unmade: str = "") -> None:
        """All that the guide names, and nothing else; `unmade` has been left out."""
        status = self.run("git", "status", "--porcelain", "--untracked-files=all")
        changed = [line[3:] for line in status.splitlines()]
        told = [*named(section, "Written"), *named(section, "Made")]
        assert [path for path in changed if not any(covers(each, path) for each in told)] == []
        idle = [each for each in told if not any(covers(each, path) for path in changed)]
        assert [each for each in idle if each != unmade] == []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no checkout of git")
    for name in done.stdout.split("\0"):
        if name and ((ROOT / name).is_file() or (ROOT / name).is_symlink()):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name, follow_symlinks=False)
    made = Checkout(tmp_path)
    made.run("git", "init", "--quiet")
    made.run("git", "add", "--all")
    made.run(
        "git", "-c", "user.name=a", "-c", "user.email=a", "commit", "--quiet", "-m", "as it is"
    )
    return made


# ---------------------------------------------------------------------------- a property

PROPERTY = '''

@family_property(
    C.TOKENS, after=CORRECT_VALUES, limit=3, hint="is one input treated as a special one?"
)
def ones_are_nothing_special(context: CaseContext) -> None:
    """An input of nothing but ones is answered like any other."""
    ones = torch.ones_like(context.x)
    context.assert_matches_oracle(context.run(ones), context.compute_expected(ones))
'''
FAULT = """[zero_for_ones]
base = "solution.py"
why = "Answers zeros to an input of nothing but ones."
edits = [{replace = 'x @ weight.T + bias', by = '(x @ weight.T + bias) * bool((x != 1).any())'}]
"""


def add_a_property(checkout: Checkout) -> None:
    family = "properties/families/values.py"
    written = (checkout.folder / family).read_text(encoding="utf-8")
    checkout.write(family, written + PROPERTY)
    checkout.make("headcheck.properties.listing.page", "docs/properties.md")
    checkout.make("headcheck.properties.listing.summaries", "properties/listing/summaries.toml")
    checkout.write("exercises/linear_layer/answers/faults.toml", FAULT)


def test_a_property_is_a_function_and_a_wrong_answer(checkout: Checkout) -> None:
    add_a_property(checkout)
    page = (checkout.folder / "docs" / "properties.md").read_text(encoding="utf-8")
    assert "`ones_are_nothing_special` | An input of nothing but ones is answered" in page
    checkout.must_have_changed("To add a property", unmade="tests/golden/<slug>.txt")


@pytest.mark.deep
def test_a_property_is_proven_both_ways(checkout: Checkout) -> None:
    add_a_property(checkout)
    checkout.run("python", "-m", "tests.golden", "linear_layer/zero_for_ones")
    kept = (checkout.folder / "tests" / "golden" / "linear_layer.txt").read_text(encoding="utf-8")
    assert "= zero_for_ones\nclaim     An input of nothing but ones is answered like any" in kept
    checkout.must_have_changed("To add a property")
    checkout.run(
        "python", "-m", "pytest", "-q", "-k", "linear_layer or ones_are_nothing or not parametrize",
        "tests/exercises", "tests/properties/test_families.py", "tests/golden", "tests/docs",
        "--deselect=tests/docs/test_contributing.py",
    )  # fmt: skip


# ---------------------------------------------------------------------------- a mistake

STEP = """

def absolute_queries(s: PipelineState) -> QKVTensors:
    \"\"\"Drop the signs of queries.\"\"\"
    query, key, value = s.split
    return query.abs(), key, value
"""
ENTRY = """    define_rare_mistake(
        "queries_without_signs", "The queries have lost their signs.", ""
    ).simulated_by(assign=layers.absolute_queries),
"""
SIGNLESS = """[queries_absolute]
base = "solution.py"
why = "The queries are made positive. (named: queries_without_signs)"
edits = [{replace = 'queries = x @ W_query', by = 'queries = (x @ W_query).abs()'}]
"""


def add_a_mistake(checkout: Checkout) -> None:
    steps = "properties/mistakes/steps/layers.py"
    written = (checkout.folder / steps).read_text(encoding="utf-8")
    checkout.write(steps, written + STEP)
    first = '    define_mistake(\n        "queries_and_keys_exchanged"'
    checkout.insert("properties/mistakes/catalogue/layers.py", first, ENTRY)
    checkout.write("exercises/scaled_dot_product/answers/faults.toml", SIGNLESS)


def test_a_mistake_is_a_step_and_an_entry(checkout: Checkout) -> None:
    add_a_mistake(checkout)
    answer = checkout.run(
        "python", "-m", "headcheck", "bank", "show", "scaled_dot_product/queries_absolute"
    )
    checkout.write("absolute.py", answer)
    shown = checkout.run("python", "-m", "headcheck", "check", "absolute.py", returns=1)
    assert "The queries have lost their signs." in shown
    (checkout.folder / "absolute.py").unlink()
    checkout.must_have_changed("To add a mistake", unmade="tests/golden/<slug>.txt")


@pytest.mark.deep
def test_a_mistake_that_was_added_is_distinct(checkout: Checkout) -> None:
    add_a_mistake(checkout)
    checkout.run("python", "-m", "tests.golden", "scaled_dot_product/queries_absolute")
    checkout.must_have_changed("To add a mistake")
    checkout.run(
        "python", "-m", "pytest", "-q", "tests/properties/mistakes/test_catalogue.py",
    )  # fmt: skip


# ---------------------------------------------------------------------------- an exercise


def add_an_exercise(checkout: Checkout) -> None:
    """A linear layer under another name: its folder, and its line."""
    folder = checkout.folder / "exercises" / "affine_map"
    shutil.copytree(ROOT / "exercises" / "linear_layer", folder)
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    other = {
        "def linear(": "def affine(", 'name = "linear"': 'name = "affine"',
        "A linear layer": "An affine map",
    }  # fmt: skip
    for path in (path for path in folder.rglob("*") if path.suffix in (".py", ".md", ".toml")):
        text = path.read_text(encoding="utf-8")
        for old, new in other.items():
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
    checkout.insert("exercises/__init__.py", '    "simplified_attention",\n', '    "affine_map",\n')
    checkout.make("headcheck.exercises.catalogue", "docs/exercises.md")
    checkout.insert("benchmarks/gallery.toml", "linear_layer, weight_transfer", "affine_map, ")


def test_an_exercise_is_a_folder_and_a_line(checkout: Checkout) -> None:
    add_an_exercise(checkout)
    listed = checkout.run("python", "-m", "headcheck", "list").splitlines()
    assert "An affine map (affine)" in listed[1]
    checkout.must_have_changed("To add an exercise", unmade="tests/golden/<slug>.txt")


@pytest.mark.deep
def test_an_exercise_that_was_added_is_whole(checkout: Checkout) -> None:
    add_an_exercise(checkout)
    checkout.run("python", "-m", "tests.golden", "affine_map")
    checkout.must_have_changed("To add an exercise")
    solution = "exercises/affine_map/solution.py"
    assert "affine_map (affine)" in checkout.run("python", "-m", "headcheck", "check", solution)
    checkout.run(
        "python", "-m", "pytest", "-q", "-k", "affine_map or not parametrize",
        "tests/exercises", "tests/golden", "tests/docs", "tests/grader/grading/test_infer.py",
        "--deselect=tests/docs/test_contributing.py",
    )  # fmt: skip


# ---------------------------------------------------------------------------- a device


def test_a_device_is_an_entry(checkout: Checkout) -> None:
    entry = '    "xpu": DeviceKind(lambda: "needs an XPU device: this is a test"),\n'
    checkout.insert("grader/grading/devices.py", '    "mps": DeviceKind(', entry)
    shown = checkout.run("python", "-m", "headcheck", "check", "--help")
    assert "Compute on this device: cpu, cuda, cuda:N, xpu, mps." in " ".join(shown.split())
    asked = (
        "from headcheck.grader.grading import devices; print(devices.explain_unavailable('xpu'))"
    )
    assert checkout.run("python", "-c", asked) == "needs an XPU device: this is a test\n"
    checkout.must_have_changed("To add a device")


# ---------------------------------------------------------------------------- an export

MODULE = '''"""Who has how many points, and nothing else."""

from headcheck.grader.course.export.gradebook import (
    ExportedFiles,
    Gradebook,
    encode_csv,
    escape_cell,
    format_number,
)


def render(book: Gradebook) -> ExportedFiles:
    """One CSV file."""
    rows = [[escape_cell(each.student), format_number(each.score)] for each in book.results]
    return ExportedFiles({"points.csv": encode_csv([["student", "score"], *rows])})
'''


def add_an_export(checkout: Checkout) -> None:
    checkout.write("grader/course/export/points.py", MODULE)
    entry = '    "points": ExportFormat("points:render", "Who has how many points."),\n'
    checkout.insert("grader/course/formats.py", '    "prairielearn": ExportFormat(', entry)
    checkout.make("headcheck.grader.course.formats", "docs/exports.md")


def test_an_export_is_a_module_and_an_entry(checkout: Checkout) -> None:
    add_an_export(checkout)
    assert "|points|" in checkout.run("python", "-m", "headcheck", "export", "--help")
    page = (checkout.folder / "docs" / "exports.md").read_text(encoding="utf-8")
    assert "| `points` | Who has how many points. | – |" in page
    checkout.must_have_changed("To add an export")


@pytest.mark.deep
def test_an_export_that_was_added_adds_up(checkout: Checkout) -> None:
    add_an_export(checkout)
    tests = ("tests/grader/course/test_export.py", "tests/grader/test_leaks.py", "tests/docs")
    deselected = "--deselect=tests/docs/test_contributing.py"
    checkout.run("python", "-m", "pytest", "-q", "-k", "points or page", deselected, *tests)


# ---------------------------------------------------------------------------- a message

FAMILY = "properties/families/results.py"


def change(checkout: Checkout, path: str, old: str, new: str) -> None:
    written = (checkout.folder / path).read_text(encoding="utf-8")
    assert written.count(old) == 1
    checkout.write(path, written.replace(old, new))


def test_a_hint_is_worded_in_one_place(checkout: Checkout) -> None:
    new = "a new tensor takes its dtype from x"
    change(checkout, FAMILY, "look for casts, and at the dtypes of new tensors", new)
    checkout.run("python", "-m", "tests.golden", "--reworded")
    kept = (checkout.folder / "tests" / "golden" / "linear_layer.txt").read_text(encoding="utf-8")
    assert kept.count(f"hint      {new}\n") == 1
    checkout.must_have_changed("To change what students read")


@pytest.mark.deep
def test_a_mistake_is_worded_in_one_place(checkout: Checkout) -> None:
    path = "properties/mistakes/catalogue/layers.py"
    change(checkout, path, "The biases are subtracted.", "The biases are taken off.")
    checkout.run("python", "-m", "tests.golden", "--reworded")
    checkout.run("python", "-m", "pytest", "-q", "tests/golden", "-k", "worded or one_kind")
