"""Check definitions in a notebook, in its own process.

    target.py        find an object's name and the exercise that it answers
    live.py          present objects of this process, and their cells, as a submission
    global_state.py  preserve random numbers, grad mode, dtype and other global state
    progress.py      display the progress of a check
    checking.py      `check` and its result
    magic.py         `%%headcheck`

Grading is the same as for the command: `grader.grading.grade.grade_inferred`.
"""

from headcheck.grader.ui.jupyter.checking import CheckInterrupted, CheckResult, check
from headcheck.grader.ui.jupyter.target import CannotCheck

__all__ = ["CannotCheck", "CheckInterrupted", "CheckResult", "check"]
