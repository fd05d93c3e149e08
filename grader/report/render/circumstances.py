"""How a run was graded: how submissions were confined, and who knows the cases."""

from headcheck.grader.report.records import Report, SeedRecord
from headcheck.grader.report.render.sanitise import sanitise_line
from headcheck.grader.sandbox.isolation import BEST_LEVEL
from headcheck.grader.seed import SeedKind

SEED_PHRASES = {
    SeedKind.PUBLIC: "the public ones, as in every check",
    SeedKind.GIVEN: "of a seed that was given",
    SeedKind.SECRET: "of a secret seed",
}


def describe_cases(seed: SeedRecord) -> str:
    """Describe who knows the cases. The seed is omitted because students read this text."""
    return SEED_PHRASES[SeedKind(seed.kind)]


def describe_circumstances(report: Report, *, whole: bool) -> tuple[str, ...]:
    """Return lines on how submissions were confined and who knows the cases.

    Unless `whole` is set, the lines mention only unusual circumstances: a weaker sandbox, or cases
    that differ from those of every check.
    """
    told = []
    if report.sandbox is not None and (whole or report.sandbox.rung != BEST_LEVEL):
        level = sanitise_line(report.sandbox.summary).removeprefix("isolation ")
        told.append(f"sandbox: {level}")
    if report.seed is not None and (whole or report.seed.kind != SeedKind.PUBLIC):
        told.append(f"cases: {describe_cases(report.seed)}")
    return tuple(told)
