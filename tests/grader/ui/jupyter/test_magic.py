"""`%load_ext headcheck` and `%%headcheck`, in a shell of IPython of this process."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from headcheck import check
from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.reading.cells import read_source
from headcheck.grader.ui.jupyter import CannotCheck, CheckResult
from tests.grader.grading.open_classes import STRANGE, UNKNOWN

TORCH = "import torch\nfrom torch import nn"
SHAPELESS = """
def linear(x, weight, bias):
    return x[99]
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """A fresh shell with the extension loaded; no history of it is kept."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=config)
    made.run_cell("%load_ext headcheck", store_history=True)
    try:
        yield made
    finally:
        made.restore_sys_module_state()
        InteractiveShell.clear_instance()


def run(shell: InteractiveShell, source: str) -> ExecutionResult:
    """A cell of its own, as a notebook runs it."""
    ended: ExecutionResult = shell.run_cell(textwrap.dedent(source), store_history=True)
    return ended


def shown(shell: InteractiveShell, source: str) -> tuple[ExecutionResult, str, list[Any]]:
    """A cell's result, what it printed, and what it displayed."""
    with capture_output() as captured:
        ended = run(shell, source)
    return ended, captured.stdout + captured.stderr, captured.outputs


def records(shell: InteractiveShell, source: str) -> list[str]:
    """The first lines of the results that a cell displays."""
    ended, _, outputs = shown(shell, source)
    assert ended.success
    return [output.data["text/plain"].splitlines()[0] for output in outputs]


# --------------------------------------------------------------------------------- the magic


def test_the_extension_brings_the_magic_and_check(shell: InteractiveShell) -> None:
    assert shell.user_ns["check"] is check
    assert shell.find_cell_magic("headcheck") is not None


def test_the_extension_takes_no_name_that_is_used(shell: InteractiveShell) -> None:
    run(shell, "check = 3\n%reload_ext headcheck")
    assert shell.user_ns["check"] == 3


@pytest.mark.parametrize("line", ["%%headcheck linear_layer", "%%headcheck"])
def test_a_cell_is_run_and_what_it_defines_is_checked(shell: InteractiveShell, line: str) -> None:
    found = records(shell, f"{line}\ndef linear(x, weight, bias):\n    return x @ weight.mT + bias")
    assert found == ["notebook  linear_layer (linear)  72 / 72  passed"]
    assert callable(shell.user_ns["linear"])


def test_only_candidate_is_chosen_under_any_name(shell: InteractiveShell) -> None:
    found = records(shell, "%%headcheck linear_layer\nmine = lambda x, w, b: x @ w.mT + b\nn = 3")
    assert [line.split("  ")[1] for line in found] == ["linear_layer (mine)"]


def test_several_answers_of_a_cell_are_checked_in_turn(shell: InteractiveShell) -> None:
    run(shell, TORCH)
    solutions = [BY_SLUG[s].solution for s in ("linear_layer", "simplified_attention")]
    found = records(shell, "\n".join(["%%headcheck", *solutions]))
    assert [line.split("  ")[1] for line in found] == [
        "linear_layer (linear)",
        "simplified_attention (simplified_attention)",
    ]


def test_the_magic_goes_by_the_course_file(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    course = Path("headcheck.toml")
    course.write_text('feedback = "name"\n[points.linear_layer]\nvalues = 48\n')
    cell = "%%headcheck linear_layer\ndef linear(x, weight, bias):\n    return "
    assert records(shell, f"{cell}x @ weight.mT + bias")[0].endswith("  80 / 80  passed")
    _, _, [output] = shown(shell, f"{cell}x @ weight.mT")
    assert "equals the equation" in output.data["text/plain"]
    for told in (output.data["text/plain"], output.data["text/html"]):
        assert "hint" not in told and "seed=" not in told
    course.write_text("round = 0\n")
    ended, _, outputs = shown(shell, f"{cell}x @ weight.mT")
    assert str(ended.error_in_exec).startswith("headcheck.toml, line 1: scores are rounded to")
    assert outputs == []


REFUSED = {
    "%%headcheck\nx = 1": "this cell defines no class and no function, so nothing was checked",
    "%%headcheck\ndef f(): ...": "this cell defines `f`, and no exercise asks for that: say which",
    "%%headcheck --bind head=n\nx = 1": "bind head=n: there is no quantity 'head'; did you mean",
    "%%headcheck linear_layer --bind heads\nx = 1": "bind heads: write QUANTITY=ARGUMENT, such",
    "%%headcheck linear_layer\nx = 1": "this cell: there is no `linear`; it defines nothing",
    "%%headcheck linear_lair\nx = 1": "there is no exercise 'linear_lair'; did you mean linear_lay",
    "%%headcheck a b\nx = 1": "%%headcheck takes one exercise, not 2: a b",
    "%%headcheck linear_layer\n1 / 0": "the cell ended with an error, so nothing was checked",
}


@pytest.mark.parametrize("source", REFUSED)
def test_uncheckable_object_gets_one_line_and_no_traceback(
    shell: InteractiveShell, source: str
) -> None:
    ended, printed, outputs = shown(shell, source)
    assert isinstance(ended.error_in_exec, CannotCheck)
    assert REFUSED[source] in str(ended.error_in_exec)
    assert printed.splitlines()[-1].startswith("headcheck: ")
    assert "magic.py" not in printed
    assert outputs == []


def test_student_exception_is_shown_unchanged(shell: InteractiveShell) -> None:
    _, printed, _ = shown(shell, "%%headcheck linear_layer\n1 / 0")
    assert "ZeroDivisionError" in printed


# --------------------------------------------------------------- what answers no exercise

SIZES = "n_embd = 32\nscale = n_embd**-0.5"
READS_SIZES = """
class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(n_embd, n_embd) for _ in range(3))

    def forward(self, x):
        return (self.q(x) @ self.k(x).mT * scale).softmax(-1) @ self.v(x)
"""


@pytest.mark.whole
def test_attention_of_a_cell_is_judged_and_what_is_none_left_out(shell: InteractiveShell) -> None:
    run(shell, TORCH)
    found = records(shell, f"%%headcheck\n{UNKNOWN}{STRANGE}\nOther = Blender\n")
    assert found == ["notebook  attention (Blender)  107 / 107  passed"]


ATTEND = """
def attend(q, k, v):
    return (q @ k.mT / q.shape[-1]**0.5).softmax(-1) @ v
"""


@pytest.mark.whole
def test_a_function_is_judged_where_it_is_no_part_of_a_class(shell: InteractiveShell) -> None:
    run(shell, TORCH)
    alone = records(shell, f"%%headcheck\n{ATTEND}\ndef helper(x): return x")
    assert [line.split("  ")[1] for line in alone] == ["attention (attend)"]
    both = records(shell, f"%%headcheck\n{ATTEND}{STRANGE}")
    assert [line.split("  ")[1] for line in both] == ["attention (Blender)"]


def test_what_is_said_of_arguments_follows_the_magic(shell: InteractiveShell) -> None:
    run(shell, TORCH)
    line = "%%headcheck --bind causal=yes --bind heads=pieces"
    _, _, [output] = shown(shell, f"{line}\n{STRANGE}")
    assert "Nothing is hidden: every token sees all" in output.data["text/plain"]


@pytest.mark.whole
def test_a_cell_without_attention_is_told_what_was_tried(shell: InteractiveShell) -> None:
    run(shell, TORCH)
    ended, _, outputs = shown(shell, f"%%headcheck\n{UNKNOWN}")
    told = str(ended.error_in_exec)
    assert "`Linear(dim)`; not recognised as attention by what it computes: `Linear` (" in told
    assert (
        "to build and call it gave an output, but no attention with its weights gives this output"
        in told
    )
    assert outputs == []


def test_variables_of_the_notebook_are_sizes_that_are_varied_and_stay(
    shell: InteractiveShell,
) -> None:
    run(shell, TORCH)  # cell 2
    run(shell, SIZES)
    run(shell, READS_SIZES)
    kept = shell.user_ns["Mixer"]
    record = judged(shell, "found = check(Mixer)").record
    assert record.status == "passed", record
    taken = "`Mixer` takes `n_embd`, the width of all heads together"
    assert taken in [note.message for note in record.notes]
    assert (shell.user_ns["n_embd"], shell.user_ns["scale"]) == (32, 32**-0.5)
    assert shell.user_ns["Mixer"] is kept


def test_a_mistake_in_a_class_that_is_run_again_is_placed_in_its_cell(
    shell: InteractiveShell,
) -> None:
    run(shell, TORCH)
    run(shell, SIZES)
    long = "        x.shape[1] < 9 or 1 / 0\n        return"
    run(shell, READS_SIZES.replace("        return", long))  # cell 4
    placed = "ZeroDivisionError: division by zero (cell 4, line 8)"
    assert placed in str(judged(shell, "found = check(Mixer)"))


# ------------------------------------------------------------------------------- cells by number


def judged(shell: InteractiveShell, source: str = "found = check(linear)") -> CheckResult:
    assert run(shell, source).success
    found = shell.user_ns["found"]
    assert isinstance(found, CheckResult)
    return found


def test_an_error_is_placed_in_the_cell_that_the_notebook_shows(shell: InteractiveShell) -> None:
    run(shell, "n = 1")
    run(shell, "\n\n" + SHAPELESS.strip())  # cell 3
    assert "(cell 3, line 4)" in str(judged(shell))


def test_the_line_of_a_cell_with_the_magic_counts_the_magic(shell: InteractiveShell) -> None:
    _, _, [output] = shown(shell, f"%%headcheck linear_layer\n{SHAPELESS}")  # cell 2
    run(shell, "n = 1")
    assert "(cell 2, line 4)" in output.data["text/plain"]
    assert "(cell 2, line 4)" in str(judged(shell))


def test_notes_are_placed_in_the_cells_too(shell: InteractiveShell) -> None:
    run(shell, "shift = 1.0")  # cell 2
    run(shell, "def linear(x, weight, bias):\n    return x @ weight.mT + bias * shift")
    [note] = judged(shell).record.notes
    assert "reads the notebook variable `shift` (set in cell 2)" in note.message
    assert (note.cell, note.line) == (3, 2)


def test_the_saved_notebook_has_the_same_numbers(shell: InteractiveShell) -> None:
    answer = find_answer(BY_SLUG["causal_weights"], "no_scale").source
    run(shell, answer)  # cell 2
    run(shell, "n = 1")
    run(shell, answer)  # cell 4: the first one, run again
    place = judged(shell, "found = check(causal_weights)").record.place
    assert place is not None
    v4 = nbformat.v4
    cells = [v4.new_markdown_cell("# Mine"), v4.new_code_cell(answer, execution_count=4)]
    saved = v4.new_notebook(cells=[*cells, v4.new_code_cell("n = 1", execution_count=3)])
    read = read_source(nbformat.writes(saved).encode(), "ipynb")
    assert [cell.number for cell in read.cells] == [place.lines[0].cell, 3] == [4, 3]


def test_the_mistake_is_placed_in_the_cell(shell: InteractiveShell) -> None:
    run(shell, find_answer(BY_SLUG["causal_weights"], "no_scale").source)  # cell 2
    record = judged(shell, "found = check(causal_weights)").record
    [mistake] = record.diagnosis
    assert mistake.name == "no_scale" and record.place is not None
    assert {each.cell for each in record.place.lines} == {2}


def test_rerun_cell_is_not_reported_as_a_second_definition(shell: InteractiveShell) -> None:
    for _ in range(3):
        run(shell, SHAPELESS)
    kinds = {note.kind for note in judged(shell).record.notes}
    assert "defined_twice" not in kinds


def test_current_objects_are_graded_not_the_displayed_cells(
    shell: InteractiveShell,
) -> None:
    run(shell, SHAPELESS)
    run(shell, "def linear(x, weight, bias):\n    return x @ weight.mT + bias")
    assert judged(shell).passed


def test_cells_that_are_not_python_do_no_harm(shell: InteractiveShell) -> None:
    shown(shell, "def linear(x, weight")
    shown(shell, "!true")
    run(shell, "def linear(x, weight, bias):\n    return x @ weight.mT + bias")
    assert judged(shell).passed


def test_check_leaves_nothing_in_the_notebook(shell: InteractiveShell) -> None:
    run(shell, "def linear(x, weight, bias):\n    return x @ weight.mT + bias")
    before = set(shell.user_ns)
    judged(shell)
    # What IPython itself keeps of every cell, and what the cell assigned.
    assert {n for n in set(shell.user_ns) - before if not n.startswith("_")} == {"found"}
