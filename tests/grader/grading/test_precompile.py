"""Scripts are compiled while nothing else is to be done, and what goes wrong there is harmless."""

import threading
from pathlib import Path

import nbformat
import pytest

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.grader.grading import precompile as module
from headcheck.grader.grading.precompile import guess_exercises, precompile_plans
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.seed import draw_secret_seed


def slugs(folder: Path, settings: Settings | None = None) -> list[str]:
    found = find_submissions([str(folder)])
    return [exercise.slug for exercise in guess_exercises(found, settings or Settings())]


def test_definitions_determine_what_is_compiled(tmp_path: Path) -> None:
    cells = ["class CausalAttention(nn.Module):\n    pass", "x = MultiHead\nself.linear = 1"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    (tmp_path / "a.ipynb").write_text(nbformat.writes(notebook))
    (tmp_path / "b.py").write_text("def linear(x): ...\nclass  CausalAttention: ...\n")
    (tmp_path / "c.py").write_bytes(b"\xff\0class MultiHeadAttention(")
    assert slugs(tmp_path) == ["causal_attention", "linear_layer", "multi_head_attention"]


def test_named_exercise_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def linear(x): ...")
    assert slugs(tmp_path, Settings(exercise=BY_SLUG["causal_weights"])) == ["causal_weights"]


def test_unreadable_file_triggers_no_compilation(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def linear(x): ...")
    found = find_submissions([str(tmp_path)])
    (tmp_path / "a.py").unlink()
    assert list(guess_exercises(found, Settings())) == []


def test_it_is_compiled_for_the_seed_of_the_run_when_the_context_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def script_of(exercise: Exercise, slots: object, seed: int, device: str) -> None:
        asked.append((exercise.slug, seed))

    monkeypatch.setattr(module, "get_batch_plan", script_of)
    chosen = Settings(exercise=BY_SLUG["causal_weights"], seed=draw_secret_seed())
    with precompile_plans([], chosen):
        pass
    assert asked in ([], [("causal_weights", chosen.seed.value)]), "not begun, or finished"
    over = threading.Event()
    module._compile_plans([], chosen, over)
    assert asked[-1] == ("causal_weights", chosen.seed.value)
    over.set()
    module._compile_plans([], chosen, over)
    assert len(asked) <= 2, "nothing is begun when it is over"


def test_compile_error_is_raised_when_the_batch_plan_is_needed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(module, "get_batch_plan", broken)
    module._compile_plans([], Settings(exercise=BY_SLUG["causal_weights"]), threading.Event())
    assert capfd.readouterr() == ("", "")
