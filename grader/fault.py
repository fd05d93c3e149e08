"""Internal errors of headcheck in one line: never a traceback, and never a verdict."""

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

ERROR_KIND = "fault"
"""the kind of such an error in a record"""
T = TypeVar("T")


def describe(error: BaseException) -> str:
    """Describe an internal error, with its location for the maintainers."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    text = " ".join(str(error).split())[:300]
    return (
        f"a fault of headcheck itself, please report it: {type(error).__name__}: {text} ({where})"
    )


def log(text: str) -> None:
    """Tell the maintainers of a fault, where no report can."""
    logging.getLogger(__name__).warning("%s", text)


def contain(
    compute: Callable[[], T],
    otherwise: T,
    *passing: type[Exception],
    report: Callable[[str], None] = log,
) -> T:
    """Return what is computed; where headcheck itself fails at it, `otherwise`, and report that.

    For what a verdict can do without: a shortcut to it, or what explains it. Errors that the caller
    knows are `passing`.
    """
    try:
        return compute()
    except passing:
        raise
    except Exception as error:
        report(describe(error))
        return otherwise
