"""What an audit found: as text, as JSON, and as a heat map on a page of its own."""

import json
from collections.abc import Iterator
from typing import Any

from exercises import Exercise
from grader.audit.matrix import AnswerResult, Audit
from grader.report.records import get_version
from grader.report.render.html import get_environment
from grader.report.render.text import align_columns

MAX_COSTLIEST = 10


def render_text(audit: Audit) -> str:
    """A row for every exercise, what is wrong with the judge, and what costs most."""
    head = ("exercise", "claims", "right", "wrong", "survivors", "false alarms", "seconds")
    rows = [head, *(_format_row(audit, exercise) for exercise in audit.exercises)]
    parts = [
        align_columns(rows),
        list(_list_problems(audit)),
        list(_list_costs(audit)),
        [_summarise(audit)],
    ]
    lines = [line for part in parts if part for line in ("", *part)][1:]
    return "".join(f"{line}\n" for line in lines)


def _format_row(audit: Audit, exercise: Exercise) -> tuple[str, ...]:
    judged = audit.select_results(exercise)
    wrong = [j for j in judged if j.answer.is_wrong]
    counts = (
        len(exercise.properties),
        len(judged) - len(wrong),
        len(wrong),
        sum(not j.broken for j in wrong),
        sum(bool(j.broken) for j in judged if not j.answer.is_wrong),
    )
    seconds = sum(sum(j.seconds.values()) for j in judged)
    return (exercise.slug, *map(str, counts), f"{seconds:.1f}")


def _list_problems(audit: Audit) -> Iterator[str]:
    for judged in audit.survivors:
        yield f"survivor     {_format_label(judged)}: {judged.answer.description}"
    for judged in audit.false_alarms:
        yield f"false alarm  {_format_label(judged)}: {', '.join(judged.broken)}"
    for claim in audit.idle:
        yield f"idle         {claim.name}: no wrong answer breaks it"


def _format_label(judged: AnswerResult) -> str:
    return f"{judged.answer.exercise}/{judged.answer.name}"


def _list_costs(audit: Audit) -> Iterator[str]:
    head = ("", "claims that cost most", "seconds", "kills", "alone")
    rows = [
        ("", name, f"{spent:.1f}", str(audit.kills[name]), str(audit.sole_kills[name]))
        for name, spent in audit.seconds.most_common(MAX_COSTLIEST)
    ]
    yield from align_columns([head, *rows])


def _summarise(audit: Audit) -> str:
    wrong = sum(j.answer.is_wrong for j in audit.results)
    right = len(audit.results) - wrong
    found = (
        f"{len(audit.survivors)} of {wrong} wrong answers survive, {len(audit.false_alarms)} of "
        f"{right} right ones are accused, {len(audit.idle)} claims are idle"
    )
    return f"Clean: {found}." if audit.clean else f"Not clean: {found}."


def to_json(audit: Audit) -> str:
    """The kill matrix and what follows from it."""
    content = {
        "format": 1,
        "headcheck": get_version(),
        "clean": audit.clean,
        "survivors": list(map(_format_label, audit.survivors)),
        "false_alarms": list(map(_format_label, audit.false_alarms)),
        "idle": [claim.name for claim in audit.idle],
        "claims": [_property_to_dict(audit, name) for name in (p.name for p in audit.properties)],
        "answers": list(map(_answer_to_dict, audit.results)),
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _property_to_dict(audit: Audit, name: str) -> dict[str, Any]:
    counts = {"kills": audit.kills[name], "alone": audit.sole_kills[name]}
    return {"name": name, **counts, "seconds": round(audit.seconds[name], 3)}


def _answer_to_dict(judged: AnswerResult) -> dict[str, Any]:
    return {
        "exercise": judged.answer.exercise,
        "name": judged.answer.name,
        "wrong": judged.answer.is_wrong,
        "says": judged.answer.description,
        "broken": list(judged.broken),
        "not_tried": list(judged.not_tried),
        "notes": list(judged.notes),
    }


def render_html(audit: Audit) -> str:
    """One page: for every exercise its answers by its claims, the broken ones dark."""
    template = get_environment().get_template("audit.html.j2")
    return template.render(
        version=get_version(), sandbox="", audit=audit, verdict=_summarise(audit)
    )
