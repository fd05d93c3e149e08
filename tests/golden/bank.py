"""What is told first to the authors of wrong answers, judged as `headcheck check` would."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from exercises import BY_SLUG, Exercise
from grader.judging.grading import Settings, grade
from grader.render.seen import sentences
from grader.render.view import Trouble, view
from grader.sandbox.process import Server
from grader.submission import find
from tests.golden import texts
from tests.golden.texts import Text, row

PATIENT = {"call_s": 60.0, "wall_s": 600.0, "cpu_s": 600}
"""so that a busy machine changes nothing"""


def answers(slug: str) -> list[Path]:
    """The wrong answers to an exercise, by name."""
    return sorted((BY_SLUG[slug].folder / "answers" / "wrong").glob("*.py"))


def told(server: Server, slug: str, path: Path) -> Text:
    """What the author of an answer reads first."""
    [handed_in] = find([str(path)])
    [record] = grade(server, handed_in, Settings(exercise=BY_SLUG[slug], insisted=PATIENT))
    shown = view(replace(record, file=path.name))
    mistakes = shown.diagnosis.sentences if shown.diagnosis else ()
    said = [row("mistake", sentence) for sentence in mistakes]
    said += [row("error", shown.error.message)] if shown.error else []
    return (*said, *_message(shown.troubles[0], BY_SLUG[slug])) if shown.troubles else (*said,)


def _message(trouble: Trouble, exercise: Exercise) -> Iterator[str]:
    """The rows about a claim, without the hint that is always given to it."""
    yield row("claim", trouble.claim)
    own = next((row("hint", c.hint) for c in exercise.properties if c.claim == trouble.claim), "")
    lines = (trouble.details or trouble.status).split("\n")
    yield from (line for line in lines if line != own)
    if trouble.case:
        yield row("on", trouble.case)
    for sentence in sentences(trouble.evidence)[:1] if trouble.evidence else ():
        yield row("seen", sentence)


def write(wanted: Iterable[str]) -> Iterator[Path]:
    """Judge the wrong answers to exercises, or single ones, and keep what their authors read.

    `causal_attention` is all of an exercise, `causal_attention/stub` one answer to it.
    """
    names: dict[str, set[str]] = {}
    for each in wanted:
        slug, _, name = each.partition("/")
        names.setdefault(slug, set()).add(name)
    with Server(trusted=True) as server:
        for slug, chosen in names.items():
            yield _written(server, slug, chosen)


def write_reworded() -> Iterator[Path]:
    """Write the legends anew, and judge those whose claim or mistake is worded otherwise by now."""
    wanted = []
    for slug in BY_SLUG:
        kinds = texts.read(slug)
        yield texts.write(BY_SLUG[slug], kinds)
        wanted += [f"{slug}/{name}" for name in sorted(texts.reworded(BY_SLUG[slug], kinds))]
    if wanted:
        yield from write(wanted)


def _written(server: Server, slug: str, chosen: set[str]) -> Path:
    """Judge the chosen answers to an exercise; the name "" chooses all."""
    paths = {path.stem: path for path in answers(slug)}
    kinds = texts.read(slug)
    again = set(paths) if "" in chosen else texts.with_their_kind(kinds, paths, chosen)
    judged = {name: told(server, slug, paths[name]) for name in sorted(again)}
    return texts.write(BY_SLUG[slug], texts.regrouped(kinds, paths, judged))
