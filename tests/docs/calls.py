"""Run the command, and print on standard error which of the project's functions call which.

Lambdas, comprehensions and code of others are passed over: the caller is the nearest function of
the project that has a name.
"""

import sys
import threading
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

from headcheck.grader.location import HEADCHECK
from headcheck.grader.ui import cli

CALLS: set[tuple[str, str]] = set()


@cache
def name_function(code: CodeType) -> str | None:
    """Return `file:name` of a function of the project; None for any other code."""
    path, name = Path(code.co_filename), code.co_qualname.replace(".<locals>", "")
    is_ours = path.is_relative_to(HEADCHECK) and "<" not in name
    return f"{path.relative_to(HEADCHECK)}:{name}" if is_ours else None


def note_call(frame: FrameType, event: str, argument: object) -> None:
    called = name_function(frame.f_code) if event == "call" else None
    if called is None:
        return
    above = frame.f_back
    while above is not None and name_function(above.f_code) is None:
        above = above.f_back
    if above is not None:
        CALLS.add((str(name_function(above.f_code)), called))


if __name__ == "__main__":
    threading.setprofile(note_call)
    sys.setprofile(note_call)
    try:
        cli.main()
    finally:
        sys.setprofile(None)
        sys.stderr.writelines(f"{caller} {called}\n" for caller, called in sorted(CALLS))
