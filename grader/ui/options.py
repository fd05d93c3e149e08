"""Options that several commands have. Nothing heavy is imported before one of them is used."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from grader.grading import devices

SEED_RANGE = click.IntRange(0, 2**63 - 1)

if TYPE_CHECKING:
    from grader.report.feedback import Feedback


def feedback_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """How much students are told."""
    text = "What is told: name, message, case, full, or a TOML file that says it claim by claim."
    return click.option("--feedback", metavar="LEVEL|FILE", help=text)(command)


def device_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where a submission computes."""
    text = f"Where it computes: {devices.DEVICE_NAMES}."
    return click.option("--device", default="cpu", show_default=True, help=text)(command)


def seed_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which cases a graded run has."""
    text = "Chooses the cases; 0 are those of `check`.  [default: a secret one]"
    return click.option("--seed", type=SEED_RANGE, help=text)(command)


def parse_feedback(text: str | None) -> "Feedback | None":
    """What `--feedback` says; None if it was not given. Raises BadFeedback."""
    from grader.report import feedback

    return None if text is None else feedback.load_feedback(text)
