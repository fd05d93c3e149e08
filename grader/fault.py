"""Internal errors of headcheck in one line: never a traceback, and never a verdict."""

import traceback
from pathlib import Path

ERROR_KIND = "fault"
"""the kind of such an error in a record"""


def describe(error: BaseException) -> str:
    """Describe an internal error, with its location for the maintainers."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    text = " ".join(str(error).split())[:300]
    return (
        f"a fault of headcheck itself, please report it: {type(error).__name__}: {text} ({where})"
    )
