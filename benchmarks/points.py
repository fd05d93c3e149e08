"""What common mistakes cost: `python -m benchmarks.points`.

`severity.toml` ranks the mistakes by severity; the ranks were chosen before anybody looked at the
points. The same answers are judged on the public cases, and Spearman's rank correlation compares
severity with points lost.
"""

import subprocess
import sys
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import correlation
from tempfile import TemporaryDirectory

import click

from headcheck.exercises import BY_SLUG
from headcheck.grader.audit.matrix import load_answers
from headcheck.grader.report.records import from_json

SEVERITIES = Path(__file__).with_name("severity.toml")
JOBS = 2


def compute_ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value; equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) - 1) / 2 for v in values]


def compute_spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation coefficient, with ties."""
    return correlation(compute_ranks(first), compute_ranks(second))


def measure(slug: str, names: Collection[str]) -> dict[str, float]:
    """Return the share of an exercise's points that each of these answers loses, by its name."""
    with TemporaryDirectory() as folder:
        for answer in load_answers(BY_SLUG[slug]):
            if answer.name in names:
                Path(folder, f"{answer.name}.py").write_text(answer.source, encoding="utf-8")
        # As a course does: with a sandbox, and what is called otherwise in its own terms.
        command = sys.executable, "-m", "headcheck", "grade", "--seed", "0", "--jobs", str(JOBS)
        told = (*command, "--format", "json", "--exercise", slug, folder)
        report = from_json(subprocess.run(told, capture_output=True, check=False).stdout)
    return {Path(r.file).stem: 1 - r.score / r.max_score for r in report.submissions}


def render_exercise(severity: Mapping[str, int], lost: Mapping[str, float]) -> list[str]:
    """Return the table of one exercise, the worst mistake first."""
    names = sorted(severity, key=lambda name: (-severity[name], -lost[name], name))
    correlation = compute_spearman([severity[n] for n in names], [lost[n] for n in names])
    rows = [f"| {n.replace('_', ' ')} | {severity[n]} | {100 * lost[n]:.0f} % |" for n in names]
    head = ["| mistake | severity | points lost |", "|---|---|---|"]
    return [f"Spearman's rank correlation: {correlation:.2f}.", "", *head, *rows]


@click.command()
def main() -> None:
    """Print the points that mistakes cost, beside their severity."""
    severities = tomllib.loads(SEVERITIES.read_text())
    for slug, severity in severities.items():
        lost = measure(slug, severity)
        click.echo("\n".join([f"### {slug}", "", *render_exercise(severity, lost), ""]))


if __name__ == "__main__":
    main()
