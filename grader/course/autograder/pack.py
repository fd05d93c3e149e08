"""Build the archive that an instructor uploads to Gradescope."""

import sys
from dataclasses import replace
from importlib.resources import files

from headcheck.exercises import Exercise
from headcheck.exercises.contract_file import CONTRACT_FILE, TEXT_FILES
from headcheck.grader.course.autograder import EXERCISES, PLAN_FILE, AutograderPlan, encode_plan
from headcheck.grader.course.autograder.wheel import Wheel, pin_versions, zip_files

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
            # Where the exercise was here is nobody's business there.
            PLAN_FILE: encode_plan(replace(plan, manifest=replace(plan.manifest, folder=""))),
            "constraints.txt": constraints.encode(),
            wheel.name: wheel.data,
            **_read_exercise(plan.manifest.settings.exercise),
        },
        programs=frozenset((SETUP, RUN)),
    )


def _read_exercise(exercise: Exercise | None) -> dict[str, bytes]:
    """Return the files of an exercise that headcheck's wheel lacks, without its answers."""
    if exercise is None or exercise.is_ours:
        return {}
    folder = f"{EXERCISES}/{exercise.slug}"
    paths = [exercise.folder / name for name in (*TEXT_FILES, "solution.py")]
    packed = {f"{folder}/{path.name}": path.read_bytes() for path in paths if path.is_file()}
    return {f"{folder}/{CONTRACT_FILE}": exercise.source.encode(), **packed}


def _read_script(name: str) -> str:
    return (
        files("headcheck.grader").joinpath("course", "autograder", name).read_text(encoding="utf-8")
    )
