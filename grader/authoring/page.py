"""Render the outcome of authoring as text. Pure functions."""

from collections.abc import Iterator

from headcheck.grader.authoring.author import Authored
from headcheck.grader.authoring.recognising import Recognised

MOST_LISTED = 12


def render_recognised(recognised: Recognised) -> str:
    """Return the description of a recognised class, and the assumptions."""
    return "".join(f"{line}\n" for line in recognised.notes)


def render_authored(authored: Authored) -> str:
    """Return the decisions, the written files, and the certificate."""
    return "".join(f"{line}\n" for line in _iter_lines(authored))


def _iter_lines(authored: Authored) -> Iterator[str]:
    for line in authored.decided:
        yield f"decided: {line}"
    if authored.waived:
        yield f"not asked, as the solution does not keep it: {', '.join(authored.waived)}"
    folder = authored.folder
    yield f"wrote {folder}: contract.toml, statement.md, hints.md, solution.py, answers"
    yield from _list_problems(authored)
    yield _certify(authored)
    yield f"read statement.md, then: headcheck start {folder}"
    yield f"                         headcheck grade CLASS_FOLDER --exercise {folder}"


def _certify(authored: Authored) -> str:
    names = {each.mistake for each in authored.caught if each.mistake}
    accused = len(authored.audit.false_alarms)
    word = "certified" if authored.is_certified else "not certified"
    said = f"none of {authored.variants} right variants accused"
    if accused:
        said = f"{accused} of {authored.variants + 1} right answers accused"
    return (
        f"{word}: {len(authored.caught)} wrong answers caught, {len(names)} kinds of mistakes "
        f"named, {said}"
    )


def _list_problems(authored: Authored) -> Iterator[str]:
    for result in authored.audit.false_alarms:
        yield f"accused: {result.answer.name}: {', '.join(result.broken)}"
    for each in authored.missed[:MOST_LISTED]:
        yield f"not caught: {each.answer.name}"
    if len(authored.missed) > MOST_LISTED:
        more = len(authored.missed) - MOST_LISTED
        yield f"not caught: {more} more; headcheck audit {authored.folder} --mutants lists them"
    if authored.left:
        yield (
            f"not judged, for lack of time: {authored.left} changes; "
            f"headcheck audit {authored.folder} --mutants judges them"
        )
    if authored.equivalent:
        count = len(authored.equivalent)
        yield f"{count} changes compute the same as the solution: they are in equivalents.toml"
