"""What a student reads who hands in each of the wrong answers: kept as text, an exercise a file.

Numbers with decimals, and very long ones, are kept for the reader and not compared: another
processor rounds otherwise, and memory runs out elsewhere.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from exercises import BY_SLUG
from exercises.answers import Answer, list_answers, write_answer
from grader.grading.grade import Settings, grade_file_or_raise
from grader.reading.submission import find_submissions
from grader.report.records import build_report
from grader.report.render import text
from grader.sandbox.grader_side.servers import ServerHandle

FOLDER = Path(__file__).parent
NUMBER = re.compile(r"-?\b\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+|\d{6})")
PATIENT_LIMITS = {"call_s": 60.0, "wall_s": 600.0, "cpu_s": 600}
"""so that a busy machine changes nothing"""
HEAD = "=" * 8


def list_wrong_answers(slug: str) -> list[Answer]:
    """The wrong answers to an exercise, by name."""
    return list_answers(BY_SLUG[slug], "wrong")


def render_feedback(server: ServerHandle, slug: str, answer: Answer) -> str:
    """What its author reads in a terminal."""
    with tempfile.TemporaryDirectory() as scratch:
        return _render_feedback(server, slug, write_answer(answer, Path(scratch)))


def _render_feedback(server: ServerHandle, slug: str, path: Path) -> str:
    [handed_in] = find_submissions([str(path)])
    records = grade_file_or_raise(
        server, handed_in, Settings(exercise=BY_SLUG[slug], limit_overrides=PATIENT_LIMITS)
    )
    return text.render(build_report([replace(one, file=path.name) for one in records]))


def load_golden(slug: str) -> dict[str, str]:
    """What was kept, by the names of the answers."""
    written = (FOLDER / f"{slug}.txt").read_text(encoding="utf-8")
    parts = re.split(rf"^{HEAD} (\w+)\.py: .*\n", written, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], (part.strip("\n") + "\n" for part in parts[1::2]), strict=True))


def mask_numbers(shown: str) -> str:
    """The same without the numbers that depend on the processor."""
    return NUMBER.sub("#", shown)


def write(wanted: Iterable[str]) -> Iterator[Path]:
    """Judge the wrong answers to exercises, or single ones, and keep what their authors read.

    `causal_attention` is all of an exercise, `causal_attention/stub` one answer to it.
    """
    names: dict[str, set[str]] = {}
    for each in wanted:
        slug, _, name = each.partition("/")
        names.setdefault(slug, set()).add(name)
    with ServerHandle(trusted=True) as server:
        for slug, chosen in names.items():
            there = {} if "" in chosen else load_golden(slug)
            kept = {name: shown for name, shown in there.items() if name not in chosen}
            parts = [
                _format_part(answer, kept.get(answer.name) or render_feedback(server, slug, answer))
                for answer in list_wrong_answers(slug)
            ]
            target = FOLDER / f"{slug}.txt"
            target.write_text("\n".join(parts), encoding="utf-8")
            yield target


def _format_part(answer: Answer, shown: str) -> str:
    return f"{HEAD} {answer.name}.py: {answer.description}\n{shown}"
