"""How far a check is, where it can be seen: in the notebook, or on the line of a terminal."""

import html
import sys
import time
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display

from properties.property import Verdict
from properties.violation import Status

REFRESH_S = 0.1
"""so many seconds what is shown stays, so that showing it costs nothing"""


class Progress:
    """Counts verdicts as they come. Use as a context manager; what it showed is gone afterwards."""

    def __init__(self, name: str, claims: int) -> None:
        self.name = name
        self.claims = claims
        self.verdicts: dict[str, Verdict] = {}
        """by claim, as far as they are known"""
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

    def update(self, verdict: Verdict) -> None:
        """One more verdict."""
        self.verdicts[verdict.property.name] = verdict
        self._show()

    @property
    def done(self) -> int:
        return len(self.verdicts)

    @property
    def broken(self) -> list[Verdict]:
        """The claims that are known not to hold."""
        fine = (Status.PASSED, Status.NOT_TRIED)
        return [verdict for verdict in self.verdicts.values() if verdict.status not in fine]

    @property
    def message(self) -> str:
        if self.done == self.claims:
            return f"checking {self.name}: looking for the mistake" if self.broken else ""
        return f"checking {self.name}: {self.done} of {self.claims} claims"

    def _show(self) -> None:
        now = time.monotonic()
        if self.done < self.claims and now - self._last < REFRESH_S:
            return
        self._last = now
        if _in_notebook():
            shown = _make_mimebundle(
                self.message, _render_bar(self.message, self.done, self.claims)
            )
            if self._shown is None:
                self._shown = display(shown, raw=True, display_id=True)
            else:
                self._shown.update(shown, raw=True)
        elif _is_terminal():
            sys.stderr.write(f"\r\x1b[K{self.message}")
            sys.stderr.flush()


def _make_mimebundle(text: str, page: str) -> dict[str, str]:
    return {"text/plain": text, "text/html": page}


def _render_bar(message: str, done: int, claims: int) -> str:
    if not message:
        return ""
    return (
        f'<progress value="{done}" max="{claims}" aria-label="claims judged"></progress> '
        f'<span role="status">{html.escape(message)}</span>'
    )


def _in_notebook() -> bool:
    """Whether something displayed can be replaced: by a kernel, not by IPython in a terminal."""
    shell: Any = get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
