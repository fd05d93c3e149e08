"""Kinds of attention without an exercise, each a folder in the form of an exercise.

`headcheck audit FOLDER` judges such a folder as it judges exercises.
"""

from pathlib import Path

from headcheck.exercises import Exercise
from headcheck.exercises.contract_file import load_exercise

KINDS: dict[str, Exercise] = {
    path.parent.name: load_exercise(path.parent)
    for path in sorted(Path(__file__).parent.glob("*/contract.toml"))
}
