"""How many answers that stop one change repairs: `python -m benchmarks.slips [SLUG…]`.

The answers are the wrong answers of the bank that stop with an error, and the crashes of
`tests/crashes`. Each is graded, then graded with its change, and everything is asked then: a change
that fails a check that no other mistake explains would be a wrong repair.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click

from headcheck.exercises import ALL
from headcheck.exercises.answers import AnswerKind
from headcheck.grader.audit.matrix import load_answers
from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.edits import apply_edit
from headcheck.grader.report.records import SubmissionRecord, from_json
from headcheck.grader.sandbox.worker.slips import list_slips
from tests.crashes.judging import load_table

TABLES = ("crashes.toml", "strangers.toml", "unusual.toml")
JOBS = 2


def list_sources(slug: str) -> dict[str, str]:
    """Return the wrong answers to an exercise, and its answers in `tests/crashes`, by name."""
    bank = load_answers(next(each for each in ALL if each.slug == slug))
    sources = {each.name: each.source for each in bank if each.kind is AnswerKind.WRONG}
    crashes = [each for table in TABLES for each in load_table(table).values()]
    return sources | {each.name: each.source for each in crashes if each.exercise == slug}


def grade(slug: str, sources: dict[str, str], *options: str) -> dict[str, SubmissionRecord]:
    """Return the records of answers, by name."""
    with TemporaryDirectory() as folder:
        for name, source in sources.items():
            Path(folder, f"{name}.py").write_text(source, encoding="utf-8")
        command = sys.executable, "-m", "headcheck", "grade", "--seed", "0", "--jobs", str(JOBS)
        told = (*command, "--format", "json", "--exercise", slug, *options, folder)
        report = from_json(subprocess.run(told, capture_output=True, check=False).stdout)
    return {Path(record.file).stem: record for record in report.submissions}


def repair(source: str, record: SubmissionRecord) -> str:
    """Return an answer with the change with which it was judged."""
    found, read = record.repair, read_source(source.encode(), "py")
    assert found is not None and record.name is not None, "it was repaired"
    stops = [None, *((None, line + 1) for line in range(source.count("\n") + 1))]
    edits = (edit for stop in stops for edit in list_slips(read, record.name, stop))
    known = (e for e in edits if (e.before, e.after) == (found.before, found.after))
    edit = next(e for e in known if found.at_head or e.line == found.line)
    return "\n".join(cell.text for cell in apply_edit(read, edit).cells)


def find_unasked(one: SubmissionRecord, whole: SubmissionRecord) -> list[str]:
    """Return what fails of a repaired answer that did not fail when the change was chosen."""
    known = {prop.name for prop in one.properties if prop.status != "passed"}
    failed = [p.name for p in whole.properties if p.status not in ("passed", "not_asked")]
    return [name for name in failed if name not in known]


def _stops(record: SubmissionRecord) -> bool:
    return record.status == "crashed" and not record.score


def measure(slug: str) -> Iterator[tuple[str, SubmissionRecord, list[str]]]:
    """Yield the answers that stop, each with what its change leaves wrong."""
    sources = list_sources(slug)
    graded = grade(slug, sources)
    stopped = {
        n: r for n, r in graded.items() if r.repair or (r.status == "crashed" and not r.score)
    }
    mended = {n: repair(sources[n], r) for n, r in stopped.items() if r.repair}
    whole = grade(slug, mended, "--thorough") if mended else {}
    for name, record in stopped.items():
        yield name, record, find_unasked(record, whole[name]) if name in whole else []


def describe(records: Iterable[tuple[str, SubmissionRecord, list[str]]]) -> Iterator[str]:
    """Yield a line for every answer."""
    for name, record, wrong in records:
        found = record.repair
        change = f"{found.before!r} -> {found.after!r}" if found else "no change found"
        besides = f"; fails {', '.join(wrong)}" if wrong else ""
        yield f"{record.exercise}/{name}: {change}, {record.seconds:.2f} s{besides}"


@click.command()
@click.argument("slugs", nargs=-1)
def main(slugs: tuple[str, ...]) -> None:
    """Print the answers that stop, with the change that repairs each."""
    every = []
    for slug in slugs or [each.slug for each in ALL]:
        found = list(measure(slug))
        every += found
        click.echo("".join(f"{line}\n" for line in describe(found)), nl=False)
    repaired = [record for _, record, _ in every if record.repair]
    wrongly = sum(bool(wrong) for _, _, wrong in every)
    seconds = [record.seconds for _, record, _ in every]
    click.echo(
        f"{len(repaired)} of {len(every)} are repaired, {wrongly} of them not wholly; "
        f"median {median(seconds):.2f} s, at most {max(seconds):.2f} s"
    )


if __name__ == "__main__":
    main()
