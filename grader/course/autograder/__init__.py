"""Grade on Gradescope: a zip archive that installs headcheck there and runs it.

`pack` builds the archive on the instructor's machine. Gradescope runs two of its files, `setup.sh`
and `run_autograder`; the latter calls `python -m headcheck.grader.course.autograder`, which grades.

Source: https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from dataclasses import dataclass

import msgspec

from headcheck.grader.course.store.manifest import Manifest

PLAN_FILE = "plan.json"
EXERCISES = "exercises"
"""the folder for an exercise that does not come with headcheck"""


@dataclass(frozen=True, slots=True)
class AutograderPlan:
    """The settings with which the archive grades."""

    manifest: Manifest
    trusted: bool = False
    """whether to grade even if submissions cannot be confined"""


def encode_plan(plan: AutograderPlan) -> bytes:
    """Encode a plan for the archive."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2)


def decode_plan(text: bytes) -> AutograderPlan:
    """Decode a plan. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(text, type=AutograderPlan, strict=False)
