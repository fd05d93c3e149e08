"""Which system a download comes from, by the names in its outermost folder alone.

What lies deeper, a student may have packed. Where these names say nothing, or two things, nobody
guesses: whoever grades is asked for `--layout`.
"""

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from grader.cohort import CohortError
from grader.cohort.gradescope import FOLDER
from grader.cohort.layouts import GITHUB, GRADESCOPE, MARK, NBGRADER, says_much
from grader.cohort.unpack import ARCHIVE, tops
from grader.render.harmless import one_line
from grader.submission import KINDS

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


def recognised(path: Path) -> str:
    """The name of the layout of what lies there. Raises Undecided."""
    names = {path.name: True} if says_much(path) else tops(path)
    signs: dict[str, list[str]] = {}
    for name, is_folder in sorted(names.items()):
        if is_folder or name == GRADESCOPE or PurePosixPath(name).suffix.lower() in TAKEN:
            signs.setdefault(_sign(name, is_folder), []).append(name)
    others = signs.pop("", [])
    if not signs:
        _must_not_be_around(path, names)
        return "plain"
    layout, *more = signs
    if more:
        raise Undecided(f"{path}: {_is(layout, signs)}, but {_is(more[0], signs)}. {ASK}")
    beside = BESIDE.get(layout)
    if strange := [each for each in others if not (beside and beside.fullmatch(each))]:
        told = f"but {one_line(strange[0])} is not"
        raise Undecided(f"{path}: {_is(layout, signs)}, {told}. Take it out, or {ASK}")
    return layout


def _sign(name: str, is_folder: bool) -> str:
    """Whose way to name things this is; nothing where it may be anybody's."""
    if (name == GRADESCOPE and not is_folder) or EXPORT.fullmatch(name):
        return "gradescope"
    if is_folder and name == NBGRADER:
        return "nbgrader"
    if is_folder and GITHUB.fullmatch(name):
        return "github"
    if mark := MARK.fullmatch(name):
        return "canvas" if mark["canvas"] else "moodle"
    return ""


def _is(layout: str, signs: Mapping[str, list[str]]) -> str:
    return f"{one_line(signs[layout][0])} is as {SYSTEMS[layout]} names it"


def _must_not_be_around(path: Path, names: Mapping[str, bool]) -> None:
    """One folder or archive may be one student's, or lie around all of the class."""
    if len(names) != 1:
        return
    [(name, is_folder)] = names.items()
    if is_folder or PurePosixPath(name).suffix.lower() == ARCHIVE:
        raise Undecided(
            f"{path}: holds nothing but {one_line(name)}. If that is the whole class, give it "
            f"instead of {path}, or {ASK}; if it is one student's, say --layout plain"
        )
