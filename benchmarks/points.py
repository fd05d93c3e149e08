"""What common mistakes cost: `python -m benchmarks.points > docs/points.md`.

Mistakes are ranked by severity in `severity.toml`, before points were looked at. The same answers
are judged on the public cases, and Spearman's rank correlation compares severity with points lost.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from exercises import BY_SLUG, Exercise
from grader.audit.matrix import AnswerResult, load_answers, run_audit
from grader.report.points import award_points, distribute_points
from properties.property import Property, Verdict
from properties.violation import Status

SEVERITIES = Path(__file__).with_name("severity.toml")
JOBS = 2


def compute_lost_share(exercise: Exercise, result: AnswerResult) -> float:
    """Return the share of an exercise's points that an answer loses."""

    def give(prop: Property) -> Verdict:
        if prop.name in result.not_tried:
            return Verdict(prop, Status.NOT_TRIED)
        return Verdict(prop, Status.FAILED if prop.name in result.broken else Status.PASSED)

    verdicts = [give(prop) for prop in exercise.properties]
    most = sum(distribute_points(exercise, None).values())
    return 1 - sum(award_points(exercise, verdicts, None)) / most


def compute_ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value; equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) - 1) / 2 for v in values]


def compute_spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation coefficient, with ties."""
    ranks = [compute_ranks(first), compute_ranks(second)]
    means = [sum(each) / len(each) for each in ranks]
    centred = [[r - m for r in each] for each, m in zip(ranks, means, strict=True)]
    product = sum(a * b for a, b in zip(*centred, strict=True))
    return product / (sum(a * a for a in centred[0]) * sum(b * b for b in centred[1])) ** 0.5


def measure(severities: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, float]]:
    """Return the share of points that each of these mistakes loses, by exercise."""
    exercises = [BY_SLUG[slug] for slug in severities]
    answers = [
        answer
        for exercise in exercises
        for answer in load_answers(exercise)
        if answer.name in severities[exercise.slug]
    ]
    lost: dict[str, dict[str, float]] = {slug: {} for slug in severities}
    for result in run_audit(exercises, answers, JOBS).results:
        slug = result.answer.exercise
        lost[slug][result.answer.name] = compute_lost_share(BY_SLUG[slug], result)
    return lost


def render_exercise(severity: Mapping[str, int], lost: Mapping[str, float]) -> list[str]:
    """Return the table of one exercise, the worst first."""
    names = sorted(severity, key=lambda name: (-severity[name], -lost[name], name))
    correlation = compute_spearman([severity[n] for n in names], [lost[n] for n in names])
    rows = [f"| {n.replace('_', ' ')} | {severity[n]} | {100 * lost[n]:.0f} % |" for n in names]
    head = ["| mistake | severity | points lost |", "|---|---|---|"]
    return [f"Spearman's rank correlation: {correlation:.2f}.", "", *head, *rows]


@click.command()
def main() -> None:
    """Print what mistakes cost, beside how bad they are."""
    severities = tomllib.loads(SEVERITIES.read_text())
    for slug, lost in measure(severities).items():
        click.echo("\n".join([f"### {slug}", "", *render_exercise(severities[slug], lost), ""]))


if __name__ == "__main__":
    main()
