"""Sentences about all checks of a submission: passed, hidden, and not tried."""

from collections import Counter
from collections.abc import Sequence

from headcheck.grader.report.records import PropertyRecord, RepairRecord, SubmissionRecord
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.rounding import format_number
from headcheck.properties.counting import count, join_words
from headcheck.properties.violations.violation import UNKNOWN, Status, format_location

BECAUSE = "because this check did not pass: "
MAX_STOPPED = 600
"""the most characters of an error and its explanation"""
NOT_TRIED_WORDS = "Not tried"
"""the beginning of every reason why a property was not tried"""


def describe_repair(repair: RepairRecord | None) -> tuple[str, ...]:
    """Return sentences on the change with which an answer was judged; none if there is none."""
    if repair is None:
        return ()
    why = repair.stopped.rstrip(".")
    stopped = f"It stops: {why}.".replace("?.", "?") if why else ""
    change = describe_change(repair) or "one change"
    judged = (
        f"With {change} at {_describe_place(repair)} all essential checks hold. It was judged with "
        f"this change, which costs {format_number(repair.price)} % of the points."
    )
    return sanitise_line(stopped or "It stops with an error.", MAX_STOPPED), judged


def describe_change(repair: RepairRecord) -> str:
    """Return what a change puts where, in words; empty if this is not disclosed."""
    after, before = (f"`{sanitise_line(code)}`" for code in (repair.after, repair.before))
    if not repair.after:
        return ""
    if repair.before:
        return f"{after} instead of {before}"
    return f"{after} added"


def _describe_place(repair: RepairRecord) -> str:
    if not repair.at_head:
        return format_location(repair.cell, repair.line).strip(" ()")
    if repair.cell is None:
        return "the head of the file"
    return "the head of the notebook"


def describe_hidden(hidden: int) -> tuple[str, ...]:
    """Return a sentence on properties that are counted but not displayed, if there are any."""
    if not hidden:
        return ()
    are, them = ("is", "it") if hidden == 1 else ("are", "them")
    return (f"{count(hidden, 'hidden check')} {are} not shown; the score counts {them}.",)


def describe_properties(record: SubmissionRecord) -> tuple[str, ...]:
    """Return a sentence about all properties together, if one is needed."""
    properties = record.properties
    passed = sum(p.status == Status.PASSED for p in properties)
    if properties and passed == len(properties):
        return (_describe_passed(record, passed), *_describe_only_thorough(record))
    if not record.score and any(p.max_points for p in properties if p.status == Status.PASSED):
        why = "they would also pass if nothing were computed"
        if any(p.status == Status.PASSED and p.group == "values" for p in properties):
            why = "all points rest on one that does not"
        verbs = "passes, but gives" if passed == 1 else "pass, but give"
        return (f"{count(passed, 'check')} {verbs} no points yet: {why}.",)
    return _describe_worthless(properties)


def _describe_passed(record: SubmissionRecord, passed: int) -> str:
    generated = record.search.cases if record.search is not None else 0
    where = f", on the fixed cases and {count(generated, 'generated case')}" if generated else ""
    if record.repair is not None:
        where = f" with this change{where}"
    if passed == 1:
        return f"The check passes{where}."
    if record.hidden:
        return f"All {passed} checks that are shown pass{where}."
    return f"All {passed} checks pass{where}."


def _describe_worthless(properties: Sequence[PropertyRecord]) -> tuple[str, ...]:
    """Return a sentence about groups that earn no points although some of their checks pass."""
    held = [p for p in properties if p.status == Status.PASSED and p.max_points and not p.points]
    if not held:
        return ()
    groups = tuple(dict.fromkeys(sanitise(p.group) for p in held))
    checks, do = ("check", "does") if len(groups) == 1 else ("checks", "do")
    why = f"because the main {checks} of {join_words(groups)} {do} not pass"
    gives = "gives" if len(held) == 1 else "give"
    return (f"{count(len(held), 'passing check')} {gives} no points, {why}.",)


def _describe_only_thorough(record: SubmissionRecord) -> tuple[str, ...]:
    """Return a sentence about the checks that only a thorough check makes, if there are any."""
    more = record.only_thorough
    are = "is" if more == 1 else "are"
    return (f"{count(more, 'more check')} {are} made with --thorough.",) if more else ()


def describe_search(record: SubmissionRecord) -> tuple[str, ...]:
    """Return sentences about a search that found a failure, ended early, or followed a failure."""
    search = record.search
    if search is None:
        return ()
    failed, tried = len(search.found), count(search.cases, "generated case")
    sentences: list[str] = []
    if failed:
        that = f"{count(failed, 'check')} of those that pass on the fixed cases"
        fail, were = "fails" if failed == 1 else "fail", "was" if search.cases == 1 else "were"
        sentences.append(f"{that} {fail} on generated ones; {tried} {were} tried.")
    elif record.status != Status.PASSED and search.cases:
        sentences.append(f"What holds on the fixed cases holds on {tried}, too.")
    if search.stopped:
        why = sanitise(search.stopped)
        sentences.append(f"The search on generated cases ended early: {why}.")
    return tuple(sentences)


def count_untried(properties: Sequence[PropertyRecord]) -> tuple[str, ...]:
    """Return one sentence on all properties that were not tried.

    The sentence repeats no failed claim, and names any other reason only if all of them share it.
    """
    untried = [p for p in properties if p.status == Status.NOT_TRIED]
    unasked = [p for p in properties if p.status == Status.NOT_ASKED]
    sentences = describe_untried(untried)
    if len(sentences) > 1 or any(BECAUSE in p.message for p in untried):
        sentences = (_count_untried(len(untried), ", because others did not pass."),)
    return (*sentences, *describe_untried(unasked))


def describe_untried(properties: Sequence[PropertyRecord]) -> tuple[str, ...]:
    """Return a sentence for each reason why properties were not tried."""
    untried = {p.claim: p for p in properties if p.status in UNKNOWN}
    counts = Counter(_find_reason(p, untried) for p in properties if p.status in UNKNOWN)
    return tuple(_count_untried(n, sanitise(reason)) for reason, n in counts.items())


def _count_untried(number: int, why: str) -> str:
    return f"{count(number, 'check')} {'was' if number == 1 else 'were'} not tried{why}"


def _find_reason(prop: PropertyRecord, untried: dict[str, PropertyRecord]) -> str:
    """Return why a property was not tried: the first cause in its chain of prerequisites."""
    visited = set()  # a report may have been edited so that the chain is a circle
    while prop.claim not in visited:
        visited.add(prop.claim)
        _, because, cause = prop.message.partition(BECAUSE)
        if cause not in untried:
            break
        prop = untried[cause]
    if because:
        return f", {because}{cause}"
    if prop.message.startswith(NOT_TRIED_WORDS):
        return prop.message.removeprefix(NOT_TRIED_WORDS)
    return f": {prop.message}" if prop.message else "."
