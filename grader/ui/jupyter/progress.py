"""Display the progress of a check in the notebook, or on a line of the terminal."""

import html
import sys
import time
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display

from headcheck.grader.grading.events import Event, PropertyJudged, SearchAdvanced, TargetStarted
from headcheck.properties.property import Verdict
from headcheck.properties.violations.violation import NOT_FAILED

REFRESH_S = 0.1
"""the shortest time between two updates, so that the display costs almost nothing"""


class Progress:
    """Counts and displays verdicts. Use as a context manager; it removes the display at the end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.checks = 0
        """the number of checks; 0 until it is known what the definition is"""
        self.verdicts: list[Verdict] = []
        self.search = ""
        """the progress of the search; empty before a search or if there is none"""
        self._shown: DisplayHandle | None = None
        self._last = -REFRESH_S

    def __enter__(self) -> "Progress":
        self._show()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.update(_make_mimebundle("", ""), raw=True)
        elif _is_terminal():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def follow(self, event: Event) -> None:
        """Show what has happened: verdicts are counted anew for each target."""
        match event:
            case TargetStarted(target):
                self.checks = len(target.exercise.properties)
                self.verdicts.clear()
                self._last = -REFRESH_S
            case PropertyJudged(verdict):
                self.verdicts.append(verdict)
            case SearchAdvanced(done, limit):
                share = f"{done / limit:.0%} of the search on generated cases"
                self.search = f"checking {self.name}: {share}"
        self._show()

    @property
    def done(self) -> int:
        return len(self.verdicts)

    @property
    def broken(self) -> list[Verdict]:
        """The verdicts of failed properties."""
        return [each for each in self.verdicts if each.status not in NOT_FAILED]

    @property
    def message(self) -> str:
        if self.search:
            return self.search
        if not self.checks:
            return f"checking {self.name}: finding out what it computes"
        if self.done == self.checks:
            return f"checking {self.name}: looking for the mistake" if self.broken else ""
        return f"checking {self.name}: {self.done} of {self.checks} checks"

    def _show(self) -> None:
        now = time.monotonic()
        if (self.search or self.done < self.checks) and now - self._last < REFRESH_S:
            return
        self._last = now
        shell: Any = get_ipython()
        # A kernel can update a display; IPython in a terminal cannot.
        if getattr(shell, "kernel", None) is not None:
            bar = _render_bar(self.message, self.done, self.checks)
            bundle = _make_mimebundle(self.message, bar)
            if self._shown is None:
                self._shown = display(bundle, raw=True, display_id=True)
            else:
                self._shown.update(bundle, raw=True)
        elif _is_terminal():
            sys.stderr.write(f"\r\x1b[K{self.message}")
            sys.stderr.flush()


def _make_mimebundle(text: str, page: str) -> dict[str, str]:
    return {"text/plain": text, "text/html": page}


def _render_bar(message: str, done: int, checks: int) -> str:
    if not message:
        return ""
    return (
        f'<progress value="{done}" max="{max(checks, 1)}" aria-label="checks done"></progress> '
        f'<span role="status">{html.escape(message)}</span>'
    )


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
