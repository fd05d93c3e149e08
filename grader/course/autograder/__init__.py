"""An autograder for Gradescope: a zip archive that installs headcheck there and grades by it.

`pack` makes the archive, on the instructor's machine. `setup.sh` and `run_autograder` lie in it and
are started by Gradescope; the second calls `python -m grader.course.autograder`, which judges.

Source: https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from dataclasses import dataclass

import msgspec

from grader.course.store.manifest import Manifest

PLAN_FILE = "plan.json"


@dataclass(frozen=True, slots=True)
class AutograderPlan:
    """What the archive is told of the grading."""

    manifest: Manifest
    """the settings"""
    trusted: bool = False
    """whether to grade also where submissions cannot be confined"""


def encode_plan(plan: AutograderPlan) -> bytes:
    """A plan as it lies in the archive."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2)


def decode_plan(text: bytes) -> AutograderPlan:
    """A plan read back. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(text, type=AutograderPlan, strict=False)
