"""For whoever is writing attention in a notebook: a check of what is defined there, right there.

    asked.py       which exercise an object answers, and under which name
    live.py        objects of this process as a submission, and the cells that they came from
    untouched.py   random numbers, grad mode, dtype and more: the same after a check as before
    progress.py    what is to be seen while it runs
    checking.py    `check`, and what it gives back
    magic.py       `%%headcheck`

The judge is that of the command: `grader.grading.grade.judged`.
"""

from grader.ui.jupyter.asked import CannotCheck
from grader.ui.jupyter.checking import CheckInterrupted, CheckResult, check

__all__ = ["CannotCheck", "CheckInterrupted", "CheckResult", "check"]
