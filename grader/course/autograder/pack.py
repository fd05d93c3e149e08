"""The archive that an instructor uploads to Gradescope."""

import sys
from importlib.resources import files

from grader.course.autograder import PLAN, Plan, encoded
from grader.course.autograder.wheel import Wheel, pinned, zipped

SETUP, RUN = "setup.sh", "run_autograder"
SPARE_S = 30
"""seconds kept for what Gradescope does before and after"""


def archive(plan: Plan, wheel: Wheel, minutes: int) -> bytes:
    """A zip archive, the same for the same versions and settings. Raises NoWheel.

    `minutes` is Gradescope's limit for one submission; grading ends before.
    """
    python = ".".join(map(str, sys.version_info[:2]))
    constraints = "".join(f"{line}\n" for line in pinned(wheel.requirements))
    return zipped(
        {
            SETUP: _script(SETUP).replace("@PYTHON@", python).encode(),
            RUN: _script(RUN).replace("@SECONDS@", str(minutes * 60 - SPARE_S)).encode(),
            PLAN: encoded(plan),
            "constraints.txt": constraints.encode(),
            wheel.name: wheel.data,
        },
        programs=frozenset((SETUP, RUN)),
    )


def _script(name: str) -> str:
    return files("grader").joinpath("course", "autograder", name).read_text(encoding="utf-8")
