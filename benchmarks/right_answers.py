"""Do right answers get all points, also on a slow machine?: `python -m benchmarks.right_answers`.

Grades every right answer of every bank under several seeds. `--speed 0.25` scales the limits in
seconds, not the clock, so that answers have the time that a machine of a quarter of the speed gives
them. Each answer that lost points has a line with the first check that lost them. With `--done
FILE` an interrupted run goes on where it ended. The last line is the result; the exit code is 1 if
any answer lost points.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory

from headcheck.exercises import ALL, BY_SLUG
from headcheck.exercises.answers import AnswerKind, list_answers, write_answer
from headcheck.exercises.exercise import Exercise
from headcheck.grader.report.records import SubmissionRecord, from_json
from headcheck.grader.sandbox.limits import Limits

JOBS = 2
OPTIONS = {"call_s": "--call-seconds", "total_s": "--seconds", "cpu_s": "--cpu-seconds"}
"""the limits that are scaled, with their options; the others do not depend on the speed"""


@dataclass(frozen=True)
class Run:
    """All right answers to one exercise, graded with one seed."""

    slug: str
    seed: int
    speed: float
    only: str = "*"
    """the names of the answers"""

    @property
    def key(self) -> str:
        """The line that says that it is done."""
        return f"{self.slug} seed={self.seed} speed={self.speed:g} only={self.only}"


def main() -> None:
    """Grade and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.right_answers")
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="exercises; by default all")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    parser.add_argument("--speed", type=float, default=1.0, help="the share of the limits to give")
    parser.add_argument("--only", default="*", help="the names of answers, such as 'loops*'")
    parser.add_argument("--done", type=Path, help="a file of finished runs, which are not repeated")
    asked = parser.parse_args()
    if unknown := set(asked.slugs) - BY_SLUG.keys():
        parser.error(f"no such exercise: {', '.join(sorted(unknown))}")
    slugs = asked.slugs or [each.slug for each in ALL]
    seeds = range(1, asked.seeds + 1)
    runs = [Run(slug, seed, asked.speed, asked.only) for seed in seeds for slug in slugs]
    sys.exit(measure([run for run in runs if list_names(run)], asked.done))


def measure(runs: Sequence[Run], done: Path | None) -> int:
    """Print a line for each answer that lost points, and one for each run; return the exit code."""
    finished = done.read_text(encoding="utf-8").splitlines() if done and done.exists() else []
    known = dict(line.split(": ") for line in finished)
    for run in runs:
        if run.key in known:
            continue
        graded = grade(run)
        lost = [line for record in graded if (line := describe_loss(record))]
        for line in lost:
            print(f"{run.key}  {line}", flush=True)
        known[run.key] = f"{len(lost)} of {len(graded)}"
        print(f"{run.key}: {known[run.key]} lost points", flush=True)
        if done is not None:
            with done.open("a", encoding="utf-8") as file:
                file.write(f"{run.key}: {known[run.key]}\n")
    counts = [known[run.key].split(" of ") for run in runs]
    lost_points, answers = (sum(int(pair[i]) for pair in counts) for i in (0, 1))
    print(f"{lost_points} of {answers} gradings of right answers lost points.")
    return int(lost_points > 0)


def list_names(run: Run) -> list[str]:
    """Return the names of the right answers to grade."""
    bank = list_answers(BY_SLUG[run.slug], AnswerKind.RIGHT)
    return [answer.name for answer in bank if fnmatch(answer.name, run.only)]


def grade(run: Run) -> list[SubmissionRecord]:
    """Return the records of the right answers to an exercise."""
    exercise, names = BY_SLUG[run.slug], list_names(run)
    with TemporaryDirectory() as folder:
        for answer in list_answers(exercise, AnswerKind.RIGHT):
            if answer.name in names:
                write_answer(answer, Path(folder))
        words = [sys.executable, "-m", "headcheck", "grade", folder, "--exercise", run.slug]
        words += ["--seed", str(run.seed), "--jobs", str(JOBS), "--format", "json"]
        words += list(list_limit_options(exercise, run.speed))
        ended = subprocess.run(words, capture_output=True, check=False)
    if ended.returncode not in (0, 1):
        sys.exit(f"{run.key}: {ended.stderr.decode(errors='replace')}")
    return list(from_json(ended.stdout).submissions)


def list_limit_options(exercise: Exercise, speed: float) -> Iterator[str]:
    """Yield the options that give this share of the exercise's limits in seconds."""
    if speed == 1:
        return
    limits = Limits().with_overrides(exercise.limits)
    for name, option in OPTIONS.items():
        scaled = getattr(limits, name) * speed
        yield option
        yield str(max(1, round(scaled))) if name == "cpu_s" else f"{scaled:g}"


def describe_loss(record: SubmissionRecord) -> str:
    """Return a line on an answer that lost points; nothing if it has all of them."""
    if record.error is not None:
        return f"{Path(record.file).stem}  {record.error.message}"
    lost = [p for p in record.properties if p.points < p.max_points]
    if not lost and record.score == record.max_score:
        return ""
    why = next((p for p in lost if p.status != "not_tried"), None)
    said = (why.message.splitlines() or [""])[0] if why else ""
    first = f"{why.name} {why.status}: {said}" if why else record.status
    return f"{Path(record.file).stem}  {record.score:g} / {record.max_score:g}  {first}"


if __name__ == "__main__":
    main()
