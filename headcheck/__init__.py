"""Verify and grade attention in PyTorch.

In a notebook, `from headcheck import check` or `%load_ext headcheck`; see
`grader.ui.jupyter`. Both are imported when they are asked for: the command imports this
package, too, and must start quickly.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from headcheck.grader.ui.jupyter import check

__all__ = ["check", "load_ipython_extension"]


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """What `%load_ext headcheck` does: `%%headcheck`, and `check` where nothing has that name."""
    from headcheck.grader.ui.jupyter import magic

    magic.load(shell)


def __getattr__(name: str) -> Any:
    if name == "check":
        from headcheck.grader.ui.jupyter import check

        return check
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
