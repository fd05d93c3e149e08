"""Detect which system a download comes from, using only the names in its outermost folder.

Deeper levels may have been packed by a student. If the names match no system or several, nothing is
guessed: the instructor is asked for `--layout`.
"""

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from headcheck.grader.course import CourseError
from headcheck.grader.course.intake.layouts import (
    GITHUB_FOLDER,
    GRADESCOPE_METADATA,
    LAYOUTS,
    NAME_PATTERN,
    NBGRADER_FOLDER,
)
from headcheck.grader.course.intake.unpack import ARCHIVE, list_top_level
from headcheck.grader.grouped import group_by
from headcheck.grader.reading.submission import KIND_BY_SUFFIX
from headcheck.grader.report.render.sanitise import sanitise_line

GRADESCOPE_EXPORT = re.compile(r"assignment_[0-9]+_export")
"""the single folder in an archive of Gradescope"""
ACCEPTED_SUFFIXES = (*KIND_BY_SUFFIX, ARCHIVE)
LAYOUT_HINT = "name the system of this download with --layout"


class AmbiguousLayout(CourseError):
    """A download may be from more than one system; the message says why and what to do."""


def detect_layout(path: Path, assignment: str = "") -> str:
    """Return the name of the layout of a download. Raises AmbiguousLayout."""
    names = list_top_level(path)
    around = path.name if path.is_dir() else ""
    telling = (
        name
        for name, is_folder in sorted(names.items())
        if is_folder
        or PurePosixPath(name).suffix.lower() in ACCEPTED_SUFFIXES
        or name == GRADESCOPE_METADATA
    )
    signs = group_by(telling, lambda name: _detect_system(name, names[name], around))
    others = signs.pop("", [])
    if not signs:
        _reject_single_entry(path, names)
        if assignment and any(names.values()):
            raise AmbiguousLayout(
                f"{path}: --assignment {assignment} is nbgrader's or GitHub Classroom's, "
                "but no name at its top fits these: add --layout nbgrader or --layout "
                "github"
            )
        return "plain"
    layout, *more = signs
    if more:
        both = f"{_describe_sign(layout, signs)}, but {_describe_sign(more[0], signs)}"
        raise AmbiguousLayout(f"{path}: {both}. {LAYOUT_HINT}")
    companions = LAYOUTS[layout].companions
    if strange := [each for each in others if not (companions and companions.fullmatch(each))]:
        both = f"{_describe_sign(layout, signs)}, but {sanitise_line(strange[0])} is not"
        raise AmbiguousLayout(f"{path}: {both}. Take it out, or {LAYOUT_HINT}")
    return layout


def _detect_system(name: str, is_folder: bool, around: str) -> str:
    """Return the layout that a name in folder `around` indicates, or "" if it indicates none."""
    if (name == GRADESCOPE_METADATA and not is_folder) or GRADESCOPE_EXPORT.fullmatch(name):
        return "gradescope"
    if match := NAME_PATTERN.fullmatch(name):
        return "canvas" if match["canvas"] else "moodle"
    if is_folder and NBGRADER_FOLDER in (name, around):
        return "nbgrader"
    assignment = GITHUB_FOLDER.fullmatch(around)
    below = assignment is not None and name.startswith(f"{assignment['assignment']}-")
    return "github" if is_folder and (below or GITHUB_FOLDER.fullmatch(name)) else ""


def _describe_sign(layout: str, signs: Mapping[str, list[str]]) -> str:
    return f"{sanitise_line(signs[layout][0])} is as {LAYOUTS[layout].system} names it"


def _reject_single_entry(path: Path, names: Mapping[str, bool]) -> None:
    """Reject a single folder or archive: it may contain one student's files or the whole class."""
    if len(names) != 1:
        return
    [(name, is_folder)] = names.items()
    if is_folder or PurePosixPath(name).suffix.lower() == ARCHIVE:
        raise AmbiguousLayout(
            f"{path}: holds nothing but {sanitise_line(name)}. If that is the whole "
            f"class, unpack {path} if it is an archive, and give its contents, or "
            f"{LAYOUT_HINT}; if it belongs to one student, add --layout plain"
        )
