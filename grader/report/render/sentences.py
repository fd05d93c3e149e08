"""Sentences about all checks of a submission: what holds, is hidden, was not tried."""

from collections import Counter
from collections.abc import Sequence

from grader.report.records import PropertyRecord, SubmissionRecord
from grader.report.render.sanitise import sanitise
from properties.violation import Status

BECAUSE = "because this did not hold: "


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
        return (f"{checks}{_count_generated(record)}.",)
    if not record.score and any(p.max_points for p in properties if p.status == Status.PASSED):
        verbs = "pass, but give" if passed > 1 else "passes, but gives"
        no_points = (
            f"{_format_check_count(passed)} {verbs} no points yet: "
            "an answer that computes nothing can pass such checks, too."
        )
        return (no_points,)
    return _describe_worthless(properties)


def _describe_worthless(properties: Sequence[PropertyRecord]) -> tuple[str, ...]:
    """Return a sentence on groups of which nothing earns points although something holds."""
    held = [p for p in properties if p.status == Status.PASSED and p.max_points and not p.points]
    if not held:
        return ()
    groups = ", ".join(dict.fromkeys(p.group for p in held))
    verbs = "pass, but give" if len(held) > 1 else "passes, but gives"
    return (
        f"{_format_check_count(len(held))} about {sanitise(groups)} {verbs} no points: "
        "what matters most there does not hold.",
    )


def _count_generated(record: SubmissionRecord) -> str:
    """Return the end of a sentence on checks that pass on generated cases, too."""
    if record.search is None or not record.search.cases:
        return ""
    count = record.search.cases
    return f", on the fixed cases and {count} generated case{'s' * (count != 1)}"


def describe_search(record: SubmissionRecord) -> tuple[str, ...]:
    """Return sentences about a search that found something, ended early, or ran on a failure."""
    search = record.search
    if search is None:
        return ()
    count = len(search.found)
    found = f"{_format_check_count(count)} of those that pass on the fixed cases"
    tried = f"{search.cases} generated case{'s' * (search.cases != 1)}"
    sentences: list[str] = []
    if count:
        verb = "fails" if count == 1 else "fail"
        sentences.append(f"{found} {verb} on generated ones; {tried} were tried.")
    elif record.status != Status.PASSED and search.cases:
        sentences.append(f"What holds on the fixed cases holds on {tried}, too.")
    if search.stopped:
        sentences.append(f"The search on generated cases ended early: {sanitise(search.stopped)}.")
    return tuple(sentences)


def count_untried(properties: Sequence[PropertyRecord]) -> tuple[str, ...]:
    """Return one sentence on all properties that were not tried; the reason if there is one."""
    sentences = describe_untried(properties)
    if len(sentences) < 2:
        return sentences
    count = sum(p.status == Status.NOT_TRIED for p in properties)
    return (f"{count} checks were not tried, because others failed.",)


def describe_untried(properties: Sequence[PropertyRecord]) -> tuple[str, ...]:
    """Return a sentence for every reason why properties were not tried."""
    untried = {p.claim: p for p in properties if p.status == Status.NOT_TRIED}
    counts = Counter(_find_reason(p, untried) for p in properties if p.status == Status.NOT_TRIED)
    return tuple(
        f"{_format_check_count(n)} {'were' if n > 1 else 'was'} not tried{sanitise(reason)}"
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
    return f": {prop.message}" if prop.message else "."


def _format_check_count(count: int) -> str:
    return f"{count} check{'s' * (count != 1)}"
