"""Match the identities in a download with students on the roster.

Nothing is guessed. If ids and names contradict each other, or two ids match one student, the
submission is graded under a separate id, and the instructor is warned.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from headcheck.grader.course.intake.layouts import SubmitterIdentity
from headcheck.grader.course.intake.roster import Roster, Student


def identify_students(
    identities: Iterable[SubmitterIdentity], known: Roster
) -> tuple[Mapping[SubmitterIdentity, Student], list[str]]:
    """Return the student of each identity of a download, and the contradictions found.

    A conflicting identity becomes a separate student.
    """
    listed = list(dict.fromkeys(identities))
    # A handle is looked up as an id; if that fails, as in plain folders, as a name.
    matches = {
        each: known.find_all(each.handle, each.email, name=each.name)
        or known.find_all(name=each.handle)
        for each in listed
    }
    conflicts = list(_find_renamed(listed))
    rivals: dict[Student, list[SubmitterIdentity]] = {}
    for each in listed:
        for match in matches[each][:1]:
            rivals.setdefault(match, []).append(each)
    students: dict[SubmitterIdentity, Student] = {}
    for each in listed:
        student = Student(_make_unclear_id(each.handle, known), each.name, email=each.email)
        if not matches[each]:
            students[each] = replace(student, id=each.handle)
        elif why := _explain_conflict(each, matches[each], rivals[matches[each][0]]):
            conflicts.append(f"{why}: graded as {student.id}")
            students[each] = student
        else:
            students[each] = matches[each][0]
    return students, conflicts


def _explain_conflict(
    who: SubmitterIdentity, matches: Sequence[Student], rivals: Sequence[SubmitterIdentity]
) -> str:
    """Return why the first match may be wrong, or an empty text if it is certain."""
    name = f"{who.handle} ({who.name})" if who.name else who.handle
    if len(matches) > 1:
        return f"{name} is {matches[0].id} by one id or name and {matches[1].id} by another"
    others = [each.handle for each in rivals if each.handle != who.handle]
    if others and not _is_exact_match(who, matches[0]):
        return f"{name} and {others[0]} would both be {matches[0].id}"
    return ""


def _make_unclear_id(handle: str, known: Roster) -> str:
    """Return an id that no student on the roster has."""
    return f"{handle} (unclear)" if known.find_all(handle, name=handle) else handle


def _is_exact_match(who: SubmitterIdentity, student: Student) -> bool:
    """Return whether an id equals one of the student's ids exactly, so that it has no rival."""
    exact = {unicodedata.normalize("NFC", each) for each in student.ids if each}
    others = (who.handle, who.email)
    return any(unicodedata.normalize("NFC", each) in exact for each in others)


def _find_renamed(identities: Sequence[SubmitterIdentity]) -> Iterator[str]:
    """Report ids with two names: a system has one name for each id, so the other was made up."""
    names: dict[str, dict[str, None]] = {}
    for each in identities:
        names.setdefault(each.handle, {})[each.name] = None
    for handle, several in names.items():
        if len(several) > 1:
            yield f"{handle} is called {' and '.join(several)}"
