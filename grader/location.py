"""The folder of this code; in a checkout `headcheck/grader` is a link to `grader`."""

from pathlib import Path

HEADCHECK = Path(__file__).parents[1].resolve()
"""the folder of the package `headcheck`"""
