"""Reports on an audit: as text, as JSON, and as a page with a heat map."""

import json
from collections.abc import Iterator
from typing import Any

from headcheck.exercises import Exercise
from headcheck.grader.audit.matrix import AnswerResult, Audit
from headcheck.grader.report.records import get_version
from headcheck.grader.report.render.html import get_environment
from headcheck.grader.report.render.lines import align_columns

MAX_COSTLIEST = 10


def render_text(audit: Audit) -> str:
    """Render one row per exercise, the faults of the grader, and the costliest properties."""
    head = ("exercise", "checks", "right", "wrong", "survivors", "false alarms", "seconds")
    rows = [head, *(_format_row(audit, exercise) for exercise in audit.exercises)]
    parts = [
        align_columns(rows),
        list(_list_problems(audit)),
        list(_list_costs(audit)),
        list(_list_search_kills(audit)),
        [_summarise(audit)],
    ]
    lines = [line for part in parts if part for line in ("", *part)][1:]
    return "".join(f"{line}\n" for line in lines)


def _format_row(audit: Audit, exercise: Exercise) -> tuple[str, ...]:
    results = audit.select_results(exercise)
    wrong = [r for r in results if r.answer.is_wrong]
    counts = (
        len(exercise.properties),
        len(results) - len(wrong),
        len(wrong),
        sum(not r.broken for r in wrong),
        sum(bool(r.broken or r.found) for r in results if not r.answer.is_wrong),
    )
    seconds = sum(sum(r.seconds.values()) for r in results)
    return (exercise.slug, *map(str, counts), f"{seconds:.1f}")


def _list_problems(audit: Audit) -> Iterator[str]:
    for result in audit.survivors:
        yield f"survivor     {_format_label(result)}: {result.answer.description}"
    for result in audit.false_alarms:
        yield f"false alarm  {_format_label(result)}: {', '.join(result.broken + result.found)}"
    for prop in audit.idle:
        yield f"idle         {prop.name}: no wrong answer breaks it"


def _format_label(result: AnswerResult) -> str:
    return f"{result.answer.exercise}/{result.answer.name}"


def _list_costs(audit: Audit) -> Iterator[str]:
    head = ("", "checks that cost most", "seconds", "kills", "alone")
    rows = [
        ("", name, f"{spent:.1f}", str(audit.kills[name]), str(audit.sole_kills[name]))
        for name, spent in audit.seconds.most_common(MAX_COSTLIEST)
    ]
    yield from align_columns([head, *rows])


def _list_search_kills(audit: Audit) -> Iterator[str]:
    """Yield the findings of a search: a row for each property, and a sentence."""
    if not any(result.generated for result in audit.results):
        return
    head = ("", "checks that only the search failed", "kills before", "more")
    rows = [
        ("", name, str(audit.kills[name]), str(more))
        for name, more in audit.search_kills.most_common()
    ]
    yield from align_columns([head, *rows])
    wrong = [r for r in audit.results if r.answer.is_wrong]
    right = [r for r in audit.results if not r.answer.is_wrong]
    yield (
        f"On {sum(r.generated for r in audit.results)} generated cases the search failed "
        f"{sum(audit.search_kills.values())} more checks on {sum(bool(r.found) for r in wrong)} of "
        f"{len(wrong)} wrong answers, and {sum(len(r.found) for r in right)} on {len(right)} right "
        "ones."
    )


def _summarise(audit: Audit) -> str:
    wrong = sum(r.answer.is_wrong for r in audit.results)
    right = len(audit.results) - wrong
    summary = (
        f"{len(audit.survivors)} of {wrong} wrong answers survive, {len(audit.false_alarms)} of "
        f"{right} right ones are accused, {len(audit.idle)} checks are idle"
    )
    return f"Clean: {summary}." if audit.clean else f"Not clean: {summary}."


def to_json(audit: Audit) -> str:
    """Encode the kill matrix and the conclusions from it as JSON."""
    content = {
        "format": 1,
        "headcheck": get_version(),
        "clean": audit.clean,
        "survivors": list(map(_format_label, audit.survivors)),
        "false_alarms": list(map(_format_label, audit.false_alarms)),
        "idle": [prop.name for prop in audit.idle],
        "claims": [_property_to_dict(audit, prop.name) for prop in audit.properties],
        "answers": list(map(_answer_to_dict, audit.results)),
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _property_to_dict(audit: Audit, name: str) -> dict[str, Any]:
    counts = {
        "kills": audit.kills[name],
        "alone": audit.sole_kills[name],
        "search": audit.search_kills[name],
    }
    return {"name": name, **counts, "seconds": round(audit.seconds[name], 3)}


def _answer_to_dict(result: AnswerResult) -> dict[str, Any]:
    return {
        "exercise": result.answer.exercise,
        "name": result.answer.name,
        "wrong": result.answer.is_wrong,
        "says": result.answer.description,
        "broken": list(result.broken),
        "found": list(result.found),
        "generated": result.generated,
        "not_tried": list(result.not_tried),
        "notes": list(result.notes),
    }


def render_html(audit: Audit) -> str:
    """Render a page with a table of answers and properties per exercise; broken ones are dark."""
    template = get_environment().get_template("audit.html.j2")
    return template.render(
        version=get_version(), sandbox="", audit=audit, verdict=_summarise(audit)
    )
