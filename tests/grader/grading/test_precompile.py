"""Scripts are compiled while nothing else is to be done, and what goes wrong there is harmless."""

import threading
from pathlib import Path

import nbformat
import pytest

from exercises import BY_SLUG, Exercise
from grader.grading import precompile as module
from grader.grading.grade import Settings
from grader.grading.precompile import compiling, likely
from grader.reading.submission import find
from grader.seed import secret


def slugs(folder: Path, settings: Settings | None = None) -> list[str]:
    found = find([str(folder)])
    return [exercise.slug for exercise in likely(found, settings or Settings())]


def test_what_is_defined_tells_what_is_needed(tmp_path: Path) -> None:
    cells = ["class CausalAttention(nn.Module):\n    pass", "x = MultiHead\nself.linear = 1"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    (tmp_path / "a.ipynb").write_text(nbformat.writes(notebook))
    (tmp_path / "b.py").write_text("def linear(x): ...\nclass  CausalAttention: ...\n")
    (tmp_path / "c.py").write_bytes(b"\xff\0class MultiHeadAttention(")
    assert slugs(tmp_path) == ["causal_attention", "linear_layer", "multi_head_attention"]


def test_an_exercise_that_was_named_is_the_one(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def linear(x): ...")
    assert slugs(tmp_path, Settings(exercise=BY_SLUG["causal_weights"])) == ["causal_weights"]


def test_what_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def linear(x): ...")
    found = find([str(tmp_path)])
    (tmp_path / "a.py").unlink()
    assert list(likely(found, Settings())) == []


def test_it_is_compiled_for_the_seed_of_the_run_when_the_context_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def script_of(exercise: Exercise, slots: object, seed: int, device: str) -> None:
        asked.append((exercise.slug, seed))

    monkeypatch.setattr(module, "script_of", script_of)
    chosen = Settings(exercise=BY_SLUG["causal_weights"], seed=secret())
    with compiling([], chosen):
        pass
    assert asked in ([], [("causal_weights", chosen.seed.value)]), "not begun, or finished"
    over = threading.Event()
    module._compile([], chosen, over)
    assert asked[-1] == ("causal_weights", chosen.seed.value)
    over.set()
    module._compile([], chosen, over)
    assert len(asked) <= 2, "nothing is begun when it is over"


def test_a_fault_there_is_left_to_whoever_needs_the_script(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(module, "script_of", broken)
    module._compile([], Settings(exercise=BY_SLUG["causal_weights"]), threading.Event())
    assert capfd.readouterr() == ("", "")
