"""Right answers take turns, and what accuses one of them is said."""

import pytest

from benchmarks import false_alarms
from benchmarks.false_alarms import list_right_answers, run_turns
from headcheck.exercises.answers import Answer, AnswerKind

BROKEN = Answer(
    "simplified_attention",
    AnswerKind.RIGHT,
    "not_right",
    "it is wrong from 13 tokens on",
    "import torch\n"
    "def simplified_attention(x):\n"
    "    weights = torch.softmax(x @ x.T, dim=-1)\n"
    "    return (weights * (1.01 if len(x) > 12 else 1)) @ x\n",
)


def test_only_right_answers_take_turns() -> None:
    answers = list_right_answers()
    assert len(answers) > 150
    assert not any(answer.is_wrong for answer in answers)


def test_who_is_accused_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(false_alarms, "list_right_answers", lambda: [BROKEN])
    tally = run_turns(0.5, 7, jobs=1)
    assert tally.accused >= 1
    assert tally.evaluations > tally.cases >= 1
    assert "accused: simplified_attention/not_right, seed 7: " in capsys.readouterr().out
