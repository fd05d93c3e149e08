"""Which system a download comes from, by the names in its outermost folder alone.

What lies deeper, a student may have packed. Where these names say nothing, or two things, nobody
guesses: whoever grades is asked for `--layout`.
"""

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from grader.course import CohortError
from grader.course.intake.gradescope_metadata import FOLDER
from grader.course.intake.layouts import GITHUB, GRADESCOPE, MARK, NBGRADER
from grader.course.intake.unpack import ARCHIVE, tops
from grader.reading.submission import KINDS
from grader.report.render.sanitise import one_line

EXPORT = re.compile(r"assignment_[0-9]+_export")
"""the one folder in the archive that Gradescope makes"""
BESIDE = {
    "gradescope": FOLDER,
    "nbgrader": re.compile(r"source|release|autograded|feedback|nbgrader_config\.py"),
}
"""what these put beside the name by which they are known"""
TAKEN = (*KINDS, ARCHIVE)
ASK = "say whose download it is by --layout"
SYSTEMS = {
    "canvas": "Canvas",
    "moodle": "Moodle",
    "gradescope": "Gradescope",
    "nbgrader": "nbgrader",
    "github": "GitHub Classroom",
}


class Undecided(CohortError):
    """A download that may be more than one system's; the message says why and what to do."""


def recognised(path: Path, assignment: str = "") -> str:
    """The name of the layout of what lies there. Raises Undecided."""
    names = tops(path)
    around = path.name if path.is_dir() else ""
    signs: dict[str, list[str]] = {}
    for name, is_folder in sorted(names.items()):
        if is_folder or name == GRADESCOPE or PurePosixPath(name).suffix.lower() in TAKEN:
            signs.setdefault(_sign(name, is_folder, around), []).append(name)
    others = signs.pop("", [])
    if not signs:
        _must_not_be_around(path, names)
        if assignment and any(names.values()):
            raise Undecided(
                f"{path}: --assignment {assignment} is nbgrader's or GitHub Classroom's, and no "
                "name at its top is: add --layout nbgrader or --layout github"
            )
        return "plain"
    layout, *more = signs
    if more:
        raise Undecided(f"{path}: {_is(layout, signs)}, but {_is(more[0], signs)}. {ASK}")
    beside = BESIDE.get(layout)
    if strange := [each for each in others if not (beside and beside.fullmatch(each))]:
        told = f"but {one_line(strange[0])} is not"
        raise Undecided(f"{path}: {_is(layout, signs)}, {told}. Take it out, or {ASK}")
    return layout


def _sign(name: str, is_folder: bool, around: str) -> str:
    """Whose way to name things this is, in a folder of that name; empty if it may be anybody's."""
    if (name == GRADESCOPE and not is_folder) or EXPORT.fullmatch(name):
        return "gradescope"
    if mark := MARK.fullmatch(name):
        return "canvas" if mark["canvas"] else "moodle"
    if is_folder and NBGRADER in (name, around):
        return "nbgrader"
    assignment = GITHUB.fullmatch(around)
    below = assignment is not None and name.startswith(f"{assignment['assignment']}-")
    return "github" if is_folder and (below or GITHUB.fullmatch(name)) else ""


def _is(layout: str, signs: Mapping[str, list[str]]) -> str:
    return f"{one_line(signs[layout][0])} is as {SYSTEMS[layout]} names it"


def _must_not_be_around(path: Path, names: Mapping[str, bool]) -> None:
    """One folder or archive may be one student's, or lie around all of the class."""
    if len(names) != 1:
        return
    [(name, is_folder)] = names.items()
    if is_folder or PurePosixPath(name).suffix.lower() == ARCHIVE:
        raise Undecided(
            f"{path}: holds nothing but {one_line(name)}. If that is the whole class, unpack "
            f"{path} if it is an archive, and give what is in it, or {ASK}; if it is one "
            "student's, say --layout plain"
        )
