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
    at = format_location(repair.cell, repair.line).strip(" ()")
    why = repair.stopped.rstrip(".")
    stopped = f"It stops: {why}." if why else "It stops with an error."
    after, before = (f"`{sanitise_line(code)}`" for code in (repair.after, repair.before))
    change = f"{after} instead of {before}" if repair.before else f"{after} added"
    change = change if repair.after else "one change"
    price = f"{format_number(repair.price)} % of the points"
    return (
        sanitise_line(stopped, MAX_STOPPED),
        f"With {change} at {at} all essential checks hold. It was judged with this change, "
        f"which costs {price}.",
    )


def describe_hidden(count: int) -> tuple[str, ...]:
    """Return a sentence on properties that are counted but not displayed, if there are any."""
    if not count:
        return ()
    checks, them = ("checks are", "them") if count > 1 else ("check is", "it")
    return (f"{count} hidden {checks} not shown; the score counts {them}.",)


def describe_properties(record: SubmissionRecord) -> tuple[str, ...]:
    """Return a sentence about all properties together, if one is needed."""
    properties = record.properties
    passed = sum(p.status == Status.PASSED for p in properties)
    if properties and passed == len(properties):
        shown = " that are shown" if record.hidden else ""
        checks = f"All {passed} checks{shown} pass" if passed > 1 else "The check passes"
        return (f"{checks}{_count_generated(record)}.", *_describe_only_thorough(record))
    if not record.score and any(p.max_points for p in properties if p.status == Status.PASSED):
        verbs = "pass, but give" if passed > 1 else "passes, but gives"
        why = "they would also pass if nothing were computed"
        if any(p.status == Status.PASSED and p.group == "values" for p in properties):
            why = "the check on which all points rest does not"
        return (f"{count(passed, 'check')} {verbs} no points yet: {why}.",)
    return _describe_worthless(properties)


def _describe_worthless(properties: Sequence[PropertyRecord]) -> tuple[str, ...]:
    """Return a sentence about groups that earn no points although some of their checks pass."""
    held = [p for p in properties if p.status == Status.PASSED and p.max_points and not p.points]
    if not held:
        return ()
    groups = tuple(dict.fromkeys(sanitise(p.group) for p in held))
    verb = "give" if len(held) > 1 else "gives"
    main = "main checks" if len(groups) > 1 else "main check"
    do = "do" if len(groups) > 1 else "does"
    return (
        f"{count(len(held), 'passing check')} {verb} no points, because the {main} of "
        f"{join_words(groups)} {do} not pass.",
    )


def _describe_only_thorough(record: SubmissionRecord) -> tuple[str, ...]:
    """Return a sentence about the checks that only a thorough check makes, if there are any."""
    if not record.only_thorough:
        return ()
    are = "is" if record.only_thorough == 1 else "are"
    return (f"{count(record.only_thorough, 'more check')} {are} made with --thorough.",)


def _count_generated(record: SubmissionRecord) -> str:
    """Return the end of a sentence on checks that also pass on generated cases."""
    if record.search is None or not record.search.cases:
        return ""
    return f", on the fixed cases and {count(record.search.cases, 'generated case')}"


def describe_search(record: SubmissionRecord) -> tuple[str, ...]:
    """Return sentences about a search that found a failure, ended early, or followed a failure."""
    search = record.search
    if search is None:
        return ()
    failed = len(search.found)
    found = f"{count(failed, 'check')} of those that pass on the fixed cases"
    tried = count(search.cases, "generated case")
    sentences: list[str] = []
    if failed:
        verb, were = "fails" if failed == 1 else "fail", "was" if search.cases == 1 else "were"
        sentences.append(f"{found} {verb} on generated ones; {tried} {were} tried.")
    elif record.status != Status.PASSED and search.cases:
        sentences.append(f"What holds on the fixed cases holds on {tried}, too.")
    if search.stopped:
        sentences.append(f"The search on generated cases ended early: {sanitise(search.stopped)}.")
    return tuple(sentences)


def count_untried(properties: Sequence[PropertyRecord]) -> tuple[str, ...]:
    """Return one sentence on all properties that were not tried.

    The sentence repeats no failed claim, and names any other reason only if all of them share it.
    """
    untried = [p for p in properties if p.status == Status.NOT_TRIED]
    unasked = [p for p in properties if p.status == Status.NOT_ASKED]
    sentences = describe_untried(untried)
    if len(sentences) > 1 or any(BECAUSE in p.message for p in untried):
        were = "was" if len(untried) == 1 else "were"
        why = "because others did not pass"
        sentences = (f"{count(len(untried), 'check')} {were} not tried, {why}.",)
    return (*sentences, *describe_untried(unasked))


def describe_untried(properties: Sequence[PropertyRecord]) -> tuple[str, ...]:
    """Return a sentence for each reason why properties were not tried."""
    untried = {p.claim: p for p in properties if p.status in UNKNOWN}
    counts = Counter(_find_reason(p, untried) for p in properties if p.status in UNKNOWN)
    return tuple(
        f"{count(n, 'check')} {'were' if n > 1 else 'was'} not tried{sanitise(reason)}"
        for reason, n in counts.items()
    )


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
