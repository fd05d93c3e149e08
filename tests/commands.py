"""The command of headcheck, run in this process, and what it gives."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headcheck.grader.ui.cli import main

RIGHT = """
import torch
def simplified_attention(x):
    return torch.softmax(x @ x.T, dim=-1) @ x
"""
WRONG = RIGHT.replace("dim=-1", "dim=0")


@dataclass(frozen=True)
class Ran:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture
def headcheck(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """Runs the command in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def ran(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["headcheck", *arguments])
        code: Any = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return Ran(code or 0, out, err)

    return ran


def written(**files: str) -> None:
    for name, text in files.items():
        Path(f"{name}.py").write_text(text)


def one_line(ran: Ran) -> str:
    """The message of a command that could not do what it was asked."""
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("headcheck: ") and ran.err.count("\n") == 1
    assert "an internal error of headcheck" not in ran.err
    return ran.err.removeprefix("headcheck: ").rstrip("\n")
