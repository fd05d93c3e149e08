"""Build the archive that an instructor uploads to Gradescope."""

import sys
from importlib.resources import files

from grader.course.autograder import PLAN_FILE, AutograderPlan, encode_plan
from grader.course.autograder.wheel import Wheel, pin_versions, zip_files

SETUP, RUN = "setup.sh", "run_autograder"
SPARE_S = 30
"""seconds reserved for Gradescope's own work before and after"""


def build_archive(plan: AutograderPlan, wheel: Wheel, minutes: int) -> bytes:
    """Return a zip archive, reproducible for the same versions and settings. Raises WheelError.

    `minutes` is Gradescope's limit for one submission; grading ends earlier.
    """
    python = ".".join(map(str, sys.version_info[:2]))
    constraints = "".join(f"{line}\n" for line in pin_versions(wheel.requirements))
    return zip_files(
        {
            SETUP: _read_script(SETUP).replace("@PYTHON@", python).encode(),
            RUN: _read_script(RUN).replace("@SECONDS@", str(minutes * 60 - SPARE_S)).encode(),
            PLAN_FILE: encode_plan(plan),
            "constraints.txt": constraints.encode(),
            wheel.name: wheel.data,
        },
        programs=frozenset((SETUP, RUN)),
    )


def _read_script(name: str) -> str:
    return files("grader").joinpath("course", "autograder", name).read_text(encoding="utf-8")
