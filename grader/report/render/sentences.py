"""Sentences about all checks of a submission: passed, hidden, and not tried."""

from collections import Counter
from collections.abc import Sequence

from headcheck.grader.report.records import PropertyRecord, RepairRecord, SubmissionRecord
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.rounding import format_number
from headcheck.properties.counting import choose_form, join_words
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
    judged = (
        "With {change} at {at} all essential checks hold. It was judged with this change, "
        "which costs {price} % of the points."
    ).format(
        change=describe_change(repair) or "one change",
        at=_describe_place(repair),
        price=format_number(repair.price),
    )
    ends = stopped or "It stops with an error."
    return sanitise_line(ends, MAX_STOPPED), judged


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


def describe_hidden(count: int) -> tuple[str, ...]:
    """Return a sentence on properties that are counted but not displayed, if there are any."""
    if not count:
        return ()
    one = "{n} hidden check is not shown; the score counts it."
    return (choose_form(one, "{n} hidden checks are not shown; the score counts them.", count),)


def describe_properties(record: SubmissionRecord) -> tuple[str, ...]:
    """Return a sentence about all properties together, if one is needed."""
    properties = record.properties
    passed = sum(p.status == Status.PASSED for p in properties)
    if properties and passed == len(properties):
        return (
            _describe_passed(record, passed),
            *_describe_only_thorough(record),
        )
    if not record.score and any(p.max_points for p in properties if p.status == Status.PASSED):
        why = "they would also pass if nothing were computed"
        if any(p.status == Status.PASSED and p.group == "values" for p in properties):
            why = "the check on which all points rest does not"
        one = "{n} check passes, but gives no points yet: {why}."
        many = "{n} checks pass, but give no points yet: {why}."
        return (choose_form(one, many, passed, why=why),)
    return _describe_worthless(properties)


def _describe_passed(record: SubmissionRecord, passed: int) -> str:
    where = _count_generated(record)
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
    why = choose_form(
        "because the main check of {groups} does not pass",
        "because the main checks of {groups} do not pass",
        len(groups),
        groups=join_words(groups),
    )
    one, many = (
        "{n} passing check gives no points, {why}.",
        "{n} passing checks give no points, {why}.",
    )
    return (choose_form(one, many, len(held), why=why),)


def _describe_only_thorough(record: SubmissionRecord) -> tuple[str, ...]:
    """Return a sentence about the checks that only a thorough check makes, if there are any."""
    if not record.only_thorough:
        return ()
    one, many = "{n} more check is made with {option}.", "{n} more checks are made with {option}."
    return (choose_form(one, many, record.only_thorough, option="--thorough"),)


def _count_generated(record: SubmissionRecord) -> str:
    """Return the end of a sentence on checks that also pass on generated cases."""
    if record.search is None or not record.search.cases:
        return ""
    one = ", on the fixed cases and {n} generated case"
    return choose_form(one, ", on the fixed cases and {n} generated cases", record.search.cases)


def describe_search(record: SubmissionRecord) -> tuple[str, ...]:
    """Return sentences about a search that found a failure, ended early, or followed a failure."""
    search = record.search
    if search is None:
        return ()
    failed = len(search.found)
    sentences: list[str] = []
    if failed:
        sentences.append(
            choose_form(
                "{n} check of those that pass on the fixed cases fails on generated ones; {tried}.",
                "{n} checks of those that pass on the fixed cases fail on generated ones; {tried}.",
                failed,
                tried=choose_form(
                    "{n} generated case was tried",
                    "{n} generated cases were tried",
                    search.cases,
                ),
            )
        )
    elif record.status != Status.PASSED and search.cases:
        one = "What holds on the fixed cases holds on {n} generated case, too."
        many = "What holds on the fixed cases holds on {n} generated cases, too."
        sentences.append(choose_form(one, many, search.cases))
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
        one = "{n} check was not tried, because others did not pass."
        many = "{n} checks were not tried, because others did not pass."
        sentences = (choose_form(one, many, len(untried)),)
    return (*sentences, *describe_untried(unasked))


def describe_untried(properties: Sequence[PropertyRecord]) -> tuple[str, ...]:
    """Return a sentence for each reason why properties were not tried."""
    untried = {p.claim: p for p in properties if p.status in UNKNOWN}
    counts = Counter(_find_reason(p, untried) for p in properties if p.status in UNKNOWN)
    one, many = "{n} check was not tried{why}", "{n} checks were not tried{why}"
    return tuple(
        choose_form(one, many, n, why=_read_reason(sanitise(reason)))
        for reason, n in counts.items()
    )


def _read_reason(reason: str) -> str:
    """Return a reason: words of our own, and a claim or the message of an error."""
    if reason.startswith(f", {BECAUSE}"):
        claim = reason.removeprefix(f", {BECAUSE}")
        return f", because this check did not pass: {claim}"
    return reason


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
