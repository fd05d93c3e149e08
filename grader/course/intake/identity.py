"""Who is meant by what a download calls people: on the roster, if there is one.

Nobody is guessed. Where ids and names contradict each other, or two ids would be one student, the
hand-in stays beside everybody's, under an id of its own, and somebody has to look.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from grader.course.intake.layouts import SubmitterIdentity
from grader.course.intake.roster import Roster, Student


@dataclass(frozen=True, slots=True)
class IdentifiedStudents:
    """The students behind the identities of one download, and what was contradictory."""

    students: Mapping[SubmitterIdentity, Student]
    conflicts: tuple[str, ...]


def identify_students(identities: Iterable[SubmitterIdentity], known: Roster) -> IdentifiedStudents:
    """Whom each of them means; a student of its own for each that is not clear."""
    listed = list(dict.fromkeys(identities))
    meant = {each: _find_students(each, known) for each in listed}
    doubts = list(_find_renamed(listed))
    rivals: dict[Student, list[SubmitterIdentity]] = {}
    for each in listed:
        for found in meant[each][:1]:
            rivals.setdefault(found, []).append(each)
    students: dict[SubmitterIdentity, Student] = {}
    for each in listed:
        student = Student(_make_unclear_id(each.handle, known), each.name, email=each.email)
        if not meant[each]:
            students[each] = replace(student, id=each.handle)
        elif why := _explain_conflict(each, meant[each], rivals[meant[each][0]]):
            doubts.append(f"{why}: graded as {student.id}")
            students[each] = student
        else:
            students[each] = meant[each][0]
    return IdentifiedStudents(students, tuple(doubts))


def _find_students(who: SubmitterIdentity, known: Roster) -> tuple[Student, ...]:
    """A handle is an id; only where it is none, as in plain folders, it may be a name."""
    found = known.find_all(who.handle, who.email, *who.other_ids, name=who.name)
    return found or known.find_all(name=who.handle)


def _explain_conflict(
    who: SubmitterIdentity, found: Sequence[Student], rivals: Sequence[SubmitterIdentity]
) -> str:
    """Why it is not clear that it is the first of them; nothing if it is."""
    if len(found) > 1:
        return (
            f"{_format_identity(who)} is {found[0].id} by one id or name and {found[1].id} by "
            f"another"
        )
    others = [each.handle for each in rivals if each.handle != who.handle]
    if others and not _is_exact_match(who, found[0]):
        return f"{_format_identity(who)} and {others[0]} would both be {found[0].id}"
    return ""


def _make_unclear_id(handle: str, known: Roster) -> str:
    """An id that is nobody's on the roster."""
    return f"{handle} (unclear)" if known.find_all(handle, name=handle) else handle


def _is_exact_match(who: SubmitterIdentity, student: Student) -> bool:
    """Whether an id is the student's, letter by letter: then no other id can take its place."""
    own = {student.id, student.login, student.email, *student.handles}
    written = {unicodedata.normalize("NFC", each) for each in own if each}
    return any(
        unicodedata.normalize("NFC", each) in written
        for each in (who.handle, who.email, *who.other_ids)
    )


def _find_renamed(identities: Sequence[SubmitterIdentity]) -> Iterator[str]:
    """A system has one name for an id; a second one was made up by somebody."""
    names: dict[str, dict[str, None]] = {}
    for each in identities:
        names.setdefault(each.handle, {})[each.name] = None
    for handle, called in names.items():
        if len(called) > 1:
            yield f"{handle} is called {' and '.join(called)}"


def _format_identity(who: SubmitterIdentity) -> str:
    return f"{who.handle} ({who.name})" if who.name else who.handle
