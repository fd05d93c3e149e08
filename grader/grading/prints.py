"""Attach what a submission prints on the cases of its failures, which is how students debug.

Prints are looked for only where they are shown: the check of a failure that is shown is made once
more on its case. A submission that never prints is asked nothing more. No verdict depends on this.
"""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from headcheck.grader.grading.live_checker import LiveChecker
from headcheck.grader.report.records import PropertyRecord
from headcheck.grader.sandbox.grader_side.servers import SandboxError
from headcheck.grader.sandbox.operations import MAX_PRINTED, PrintsReply
from headcheck.properties.property import Property, Verdict
from headcheck.properties.violations.violation import Status, SubmissionFailed

MAX_FAILURES = 8
"""the most failures whose prints are shown"""
MAX_PRINTED_LINES = 20


def attach_prints(
    properties: Sequence[PropertyRecord],
    verdicts: Sequence[Verdict],
    shown: Collection[Property],
    live: LiveChecker,
) -> list[PropertyRecord]:
    """Return the properties, with the prints of failures that are shown.

    `verdicts` are those of the properties, in the same order. If the submission's process ends, the
    prints so far are returned.
    """
    printed: dict[Property, str] = {}
    with contextlib.suppress(SubmissionFailed, SandboxError):
        if live.session.is_alive and live.session.take_prints().length:
            for verdict in list_failures(verdicts, shown):
                printed[verdict.property] = shorten_prints(live.collect_prints(verdict))
    pairs = zip(properties, verdicts, strict=True)
    return [replace(record, printed=printed.get(v.property, "")) for record, v in pairs]


def list_failures(verdicts: Sequence[Verdict], shown: Collection[Property]) -> Iterator[Verdict]:
    """Yield the first failures that are shown; of crashes with the same message only the first."""
    left, crashes = MAX_FAILURES, set[str]()
    for verdict in verdicts:
        if verdict.property not in shown or verdict.case is None or not left:
            continue
        crash = verdict.failure.message if verdict.failure is not None else ""
        if verdict.status is Status.CRASHED and crash not in crashes:
            crashes.add(crash)
        elif verdict.status is not Status.FAILED:
            continue
        left -= 1
        yield verdict


def shorten_prints(printed: PrintsReply) -> str:
    """Return the first lines, and a line that says how much is left out.

    The worker limits the text, but a submission may answer in its place.
    """
    lines = printed.text[:MAX_PRINTED].split("\n")
    kept = "\n".join(lines[:MAX_PRINTED_LINES]).rstrip()
    rest = printed.length - len(kept)
    if len(lines) <= MAX_PRINTED_LINES and printed.length <= MAX_PRINTED:
        return kept
    many = f"{rest:,}" if 0 < rest < 10**15 else "many"
    return f"{kept}\n[… {many} more characters]"
