"""What `import headcheck` offers: a few names, which are imported when they are asked for."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

import headcheck
from headcheck.exercises import BY_SLUG
from headcheck.exercises.exercise import BadContract
from headcheck.properties.terms.size_rules import BadSizes

EXERCISE = BY_SLUG["self_attention_v2"]


class SelfAttention_v2(nn.Module):
    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.W_query(x) @ self.W_key(x).mT / self.W_key.weight.shape[0] ** 0.5
        weights: Tensor = torch.softmax(scores, dim=-1)
        output: Tensor = weights @ self.W_value(x)
        return output


class Unscaled(SelfAttention_v2):
    def forward(self, x: Tensor) -> Tensor:
        weights: Tensor = torch.softmax(self.W_query(x) @ self.W_key(x).mT, dim=-1)
        output: Tensor = weights @ self.W_value(x)
        return output


def test_every_name_is_there_and_no_other() -> None:
    assert {name for name in headcheck.__all__ if getattr(headcheck, name) is None} == set()
    assert {*headcheck.__all__} <= {*dir(headcheck)}
    with pytest.raises(AttributeError, match="module 'headcheck' has no attribute 'grade'"):
        headcheck.grade  # noqa: B018


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    script = "import sys, headcheck; print([m for m in sys.modules if m.startswith('headcheck.')])"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"


def test_a_right_class_passes() -> None:
    found = headcheck.verify(SelfAttention_v2, EXERCISE.contract, sizes="tokens<=8")
    assert found.passed and found.failures == {} and found.tried > 50
    assert str(found) == f"{found.tried} tried, 0 failed, {len(found.skipped)} skipped"


def test_a_wrong_class_fails_and_says_where() -> None:
    path = f"exercises/{EXERCISE.slug}/contract.toml"
    found = headcheck.verify(Unscaled, path)
    assert not found.passed
    message = found.failures["the_scores_are_divided_by_the_root_of_the_head_size[cpu-float64]"]
    assert "as if scaled by 1" in message and message in str(found)


def test_what_cannot_be_read_is_told() -> None:
    with pytest.raises(BadContract, match="nowhere"):
        headcheck.verify(SelfAttention_v2, "nowhere.toml")
    with pytest.raises(BadSizes):
        headcheck.verify(SelfAttention_v2, EXERCISE.contract, sizes="tokens<=none")


def test_what_is_never_tried_does_not_pass() -> None:
    found = headcheck.verify(SelfAttention_v2, EXERCISE.contract, devices=["cuda"])
    if torch.cuda.is_available():
        assert found.passed
    else:
        assert not found.passed and found.tried == 0 and set(found.skipped.values())
