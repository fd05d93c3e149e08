"""Report internal errors of headcheck in one line, never as a traceback or a verdict."""

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

ERROR_KIND = "fault"
"""the kind that an internal error has in a record"""
T = TypeVar("T")


def describe(error: BaseException) -> str:
    """Describe an internal error, with its location for the maintainers."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    text = " ".join(str(error).split())[:300]
    return (
        f"an internal error of headcheck, please report it: {type(error).__name__}: {text} "
        f"({where})"
    )


def log(text: str) -> None:
    """Log a fault for the maintainers if no report can hold it."""
    logging.getLogger(__name__).warning("%s", text)


def contain(
    compute: Callable[[], T],
    otherwise: T,
    *passing: type[Exception],
    report: Callable[[str], None] = log,
) -> T:
    """Return the result of `compute`; if headcheck fails, report that and return `otherwise`.

    This is for steps that a verdict does not need: shortcuts and explanations. Errors of the types
    in `passing` are raised as usual.
    """
    try:
        return compute()
    except passing:
        raise
    except Exception as error:
        report(describe(error))
        return otherwise
