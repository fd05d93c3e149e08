"""What `import headcheck` offers: a few names, which are imported when they are asked for."""

import subprocess
import sys

import pytest
import torch

import headcheck
from headcheck.exercises import BY_SLUG
from headcheck.exercises.exercise import BadContract
from headcheck.properties.terms.size_rules import BadSizes
from tests.submissions import execute

EXERCISE = BY_SLUG["self_attention_v2"]
SCALED = " / keys.shape[-1] ** 0.5"


def load(source: str) -> type:
    """The class that a source defines."""
    defined: type = execute(source)[EXERCISE.contract.name]
    return defined


RIGHT = load(EXERCISE.solution)
UNSCALED = load(EXERCISE.solution.replace(SCALED, ""))


def test_every_name_is_there_and_no_other() -> None:
    assert {name for name in headcheck.__all__ if getattr(headcheck, name) is None} == set()
    assert {*headcheck.__all__} <= {*dir(headcheck)}
    with pytest.raises(AttributeError, match="module 'headcheck' has no attribute 'grade'"):
        headcheck.grade  # noqa: B018


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    script = "import sys, headcheck; print([m for m in sys.modules if m.startswith('headcheck.')])"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"


def test_a_right_class_passes() -> None:
    found = headcheck.verify(RIGHT, EXERCISE.contract, sizes="tokens<=8")
    assert found.passed and found.failures == {} and found.tried > 50
    assert str(found) == f"{found.tried} tried, 0 failed, {len(found.skipped)} skipped"


def test_a_wrong_class_fails_and_says_where() -> None:
    path = f"exercises/{EXERCISE.slug}/contract.toml"
    found = headcheck.verify(UNSCALED, path)
    assert not found.passed
    message = found.failures["the_scores_are_divided_by_the_root_of_the_head_size[cpu-float64]"]
    assert "as if scaled by 1" in message and message in str(found)


def test_what_cannot_be_read_is_told() -> None:
    with pytest.raises(BadContract, match="nowhere"):
        headcheck.verify(RIGHT, "nowhere.toml")
    with pytest.raises(BadSizes):
        headcheck.verify(RIGHT, EXERCISE.contract, sizes="tokens<=none")


def test_what_is_never_tried_does_not_pass() -> None:
    found = headcheck.verify(RIGHT, EXERCISE.contract, devices=["cuda"])
    if torch.cuda.is_available():
        assert found.passed
    else:
        assert not found.passed and found.tried == 0 and set(found.skipped.values())
