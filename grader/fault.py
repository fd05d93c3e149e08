"""A fault of headcheck itself, in one line: never a traceback, and never a verdict."""

import traceback
from pathlib import Path

ERROR_KIND = "fault"
"""of the error in a record"""


def describe(error: Exception) -> str:
    """What happened, with the place for whoever mends it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    text = " ".join(str(error).split())[:300]
    return (
        f"a fault of headcheck itself, please report it: {type(error).__name__}: {text} ({where})"
    )
