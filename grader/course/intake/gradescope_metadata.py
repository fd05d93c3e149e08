"""Read Gradescope's `submission_metadata.yml`: who submitted which folder, and when.

The file is always written by Ruby's Psych in block style, with two spaces of indentation and one
key per line. Only four keys at fixed depths matter, so this module just scans the lines. A YAML
parser would be an additional dependency, and would parse everything that a student's output
contains. Deeper levels, such as the results of earlier autograders, are skipped.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

FOLDER = re.compile(r"submission_[0-9]+")
SUBMISSION = re.compile(rf"(?P<folder>{FOLDER.pattern}):\s*")
KEY = re.compile(r"  :(?P<key>[a-z_]+):(?: (?P<value>.*))?")
PERSON = re.compile(r"  (?:(?P<new>- )|  ):(?P<key>name|sid|email):(?: (?P<value>.*))?")
TIME = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)? ?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class GradescopeSubmitter:
    """A student as listed on Gradescope's roster; unknown fields are empty."""

    name: str = ""
    sid: str = ""
    email: str = ""


@dataclass(frozen=True, slots=True)
class GradescopeSubmission:
    """A submission by one student or a group."""

    submitters: tuple[GradescopeSubmitter, ...] = ()
    created: datetime | None = None


def parse_metadata(text: str) -> dict[str, GradescopeSubmission]:
    """Return the submissions by the names of their folders."""
    submissions: dict[str, GradescopeSubmission] = {}
    for folder, key, value in _scan_lines(text):
        submission = submissions.setdefault(folder, GradescopeSubmission())
        people = submission.submitters
        if key == "created_at":
            submissions[folder] = replace(submission, created=_parse_time(value))
        elif key == "new":
            people = (*people, GradescopeSubmitter())
        elif people:
            people = (*people[:-1], replace(people[-1], **{key: value}))
        submissions[folder] = replace(submissions[folder], submitters=people)
    return submissions


def _scan_lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield folder, key and value of each relevant line; the key `new` starts another submitter."""
    folder, section = "", ""
    # Not splitlines(): it also splits at characters that may occur in a program's output.
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
    """Return a one-line YAML scalar: plain, single-quoted or double-quoted."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        # YAML has JSON's escapes and a few more, for control characters.
        plain = re.sub(r"\\(x)([0-9a-fA-F]{2})", r"\\u00\2", text).replace("\\e", "\\u001b")
        try:
            return str(json.loads(plain))
        except ValueError:
            return text[1:-1]
    return "" if text in ("", "~", "null") else text


def _parse_time(text: str) -> datetime | None:
    match = TIME.fullmatch(text)
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        time = datetime.fromisoformat(f"{day}T{clock}.{(fraction or '0'):0<6}{zone}")
        return time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
