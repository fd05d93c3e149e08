"""Choose the folder of an authored exercise: a new one with a free name."""

import re
from pathlib import Path

from headcheck.exercises import BY_SLUG
from headcheck.exercises.contract_file import SLUG
from headcheck.grader.authoring.recognising import CannotAuthor


def name_folder(class_name: str) -> Path:
    """Return the folder for a class, in the current one: `MultiHead` is written to multi_head."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", class_name)
    slug = re.sub(r"\W", "_", words.lower()).strip("_") or "attention"
    return Path(f"own_{slug}" if slug in BY_SLUG else slug)


def check_folder(folder: Path) -> None:
    """Raise CannotAuthor if an exercise cannot be written to the folder."""
    if not SLUG.fullmatch(folder.name):
        allowed = "name it with letters, digits, _ and -"
        raise CannotAuthor(f"{folder}: {folder.name!r} cannot name an exercise; {allowed}")
    if folder.name in BY_SLUG:
        raise CannotAuthor(
            f"{folder}: headcheck has an exercise {folder.name!r} already; choose another name "
            "with -o"
        )
    if folder.exists() or folder.is_symlink():
        raise CannotAuthor(f"{folder} is already there, and stays; choose another with -o")
