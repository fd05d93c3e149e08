"""Markdown in a terminal is laid out; elsewhere it is what was written."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console
from rich.theme import Theme

from headcheck.exercises import ALL, BY_SLUG
from headcheck.exercises.exercise import Exercise
from headcheck.grader.ui import exercise_commands, markdown

TEXT = """# A *title*

Read **this**, `x @ y`, and then all of what stands on this line, which is long.

```python
def attend(x): ...
```

- first
- second, of which there is more than a line of forty columns has room for

| name | meaning |
|---|---|
| `x` | tokens |
"""
Show = Callable[..., str]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """What is printed in a terminal of some width."""

    def shown(text: str, width: int = 40) -> str:
        written = io.StringIO()

        def make_console(theme: Theme, color_system: Any) -> Console:
            return Console(
                file=written,
                force_terminal=True,
                width=width,
                theme=theme,
                color_system=color_system,
                _environ={"TERM": "xterm"},
            )

        monkeypatch.setattr(markdown, "Console", make_console)
        markdown.print_markdown(text)
        return written.getvalue()

    return shown


def test_a_terminal_gets_no_marks_but_what_they_mean(
    show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    printed = show(TEXT)
    assert not [mark for mark in ("**", "`", "# ", "|---", "- first") if mark in printed]
    assert "\x1b[1mthis\x1b[0m" in printed  # bold
    assert "\x1b[36mx @ y\x1b[0m" in printed


def test_no_color_is_laid_out_without_escape_sequences(
    show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    printed = show(TEXT)
    lines = [line.rstrip() for line in printed.splitlines()]
    assert "\x1b" not in printed
    assert lines[:2] == ["A title", "═══════"]
    assert "    def attend(x): ..." in lines
    assert " • first" in lines
    assert any(line.split() == ["name", "meaning"] for line in lines)
    assert max(map(len, lines)) <= 40


def test_a_wide_terminal_is_not_filled(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert max(len(line) for line in show("word " * 100, width=300).splitlines()) <= 100


def test_elsewhere_it_is_what_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    markdown.print_markdown(TEXT)
    assert capsys.readouterr().out == TEXT


def test_what_would_drive_a_terminal_is_shown(show: Show) -> None:
    assert "a\\x1b]0;owned\\x07 b" in show("a\x1b]0;owned\x07 b")


def test_what_would_drive_a_terminal_is_shown_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    markdown.print_markdown("a\x1b[2J b\n")
    assert capsys.readouterr().out == "a\\x1b[2J b\n"


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.slug)
def test_drawings_of_the_statements_fit_a_terminal_of_a_hundred_columns(
    show: Show, exercise: Exercise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    lines = {line.rstrip() for line in show(exercise.statement, width=100).splitlines()}
    for block in exercise.statement.split("```")[1::2]:
        for line in block.rstrip().splitlines()[1:]:
            assert f"    {line}".rstrip() in lines


def test_what_is_checked_is_a_list_in_markdown() -> None:
    exercise = BY_SLUG["causal_attention"]
    text = exercise_commands.describe_exercise(exercise, "causal_attention", checks=True)
    checked = text.split("## What is checked\n")[1]
    assert checked.startswith("\n- contract: 5 points for 13 checks\n  - It can be constructed")
    claims = [line for line in checked.splitlines() if line.startswith("  - ")]
    assert len(claims) == len(exercise.properties) == len(exercise.summaries)
    decisive = [line for line in claims if "no points at all" in line]
    assert decisive == [f"  - {exercise.prerequisite.claim} (If not, there are no points at all.)"]
