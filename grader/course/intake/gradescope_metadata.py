"""What headcheck needs of Gradescope's `submission_metadata.yml`: who handed in which folder, when.

The file is written by one program (Ruby's Psych): block style, two spaces, a key to a line. Four
of its keys are wanted, at fixed depths, so this reads lines and is no YAML parser: that would be
a dependency, and would build whatever a student's output contains. Whatever lies deeper, such as
the results of earlier autograders, is skipped.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

FOLDER = re.compile(r"submission_[0-9]+")
SUBMISSION = re.compile(rf"(?P<folder>{FOLDER.pattern}):\s*")
KEY = re.compile(r"  :(?P<key>[a-z_]+):(?: (?P<value>.*))?")
PERSON = re.compile(r"  (?:(?P<new>- )|  ):(?P<key>name|sid|email):(?: (?P<value>.*))?")
TIME = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)? ?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class GradescopeSubmitter:
    """Who handed in, as Gradescope's roster knows them; what it does not know is empty."""

    name: str = ""
    sid: str = ""
    email: str = ""


@dataclass(frozen=True, slots=True)
class GradescopeSubmission:
    """One submission: of one student, or of a group."""

    submitters: tuple[GradescopeSubmitter, ...] = ()
    created: datetime | None = None


def parse_metadata(text: str) -> dict[str, GradescopeSubmission]:
    """The submissions by the names of their folders."""
    found: dict[str, GradescopeSubmission] = {}
    for folder, key, value in _scan_lines(text):
        handed = found.setdefault(folder, GradescopeSubmission())
        if key == "created_at":
            found[folder] = replace(handed, created=_parse_time(value))
        elif key == "new":
            found[folder] = replace(handed, submitters=(*handed.submitters, GradescopeSubmitter()))
        elif handed.submitters:
            *others, last = handed.submitters
            known = {"name": last.name, "sid": last.sid, "email": last.email, key: value}
            found[folder] = replace(handed, submitters=(*others, GradescopeSubmitter(**known)))
    return found


def _scan_lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Folder, key and value of each line that matters; a key `new` begins another person."""
    folder, section = "", ""
    # Not splitlines(): it also ends lines at characters that may be in what a program printed.
    for line in text.replace("\r\n", "\n").split("\n"):
        if begins := SUBMISSION.fullmatch(line):
            folder, section = begins["folder"], ""
            yield folder, "", ""
        elif folder and (key := KEY.fullmatch(line)):
            section = key["key"]
            if section == "created_at":
                yield folder, section, parse_scalar(key["value"] or "")
        elif folder and section == "submitters" and (person := PERSON.fullmatch(line)):
            if person["new"]:
                yield folder, "new", ""
            yield folder, person["key"], parse_scalar(person["value"] or "")


def parse_scalar(text: str) -> str:
    """A YAML scalar on one line: plain, in single quotes, or in double quotes."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        # YAML's escapes are those of JSON, and a few more for control characters.
        plain = re.sub(r"\\(x)([0-9a-fA-F]{2})", r"\\u00\2", text).replace("\\e", "\\u001b")
        try:
            return str(json.loads(plain))
        except ValueError:
            return text[1:-1]
    return "" if text in ("", "~", "null") else text


def _parse_time(text: str) -> datetime | None:
    found = TIME.fullmatch(text)
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    try:
        return datetime.fromisoformat(f"{day}T{clock}.{(fraction or '0'):0<6}{zone}")
    except ValueError:
        return None
