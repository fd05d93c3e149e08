"""The cost of grading unseen answers: `python -m benchmarks.unseen [COUNT] [SEED] [PYTHON]`.

`python -m benchmarks.unseen class SIZE [SEED] [PYTHON]` grades a class of that size.

A right answer to `multi_head_attention`, in one of the styles of the bank, gets two changes, each
drawn from all that `grader/audit/mutants.py` can make. Answers that crash on the first call are
drawn again, because students notice such crashes themselves. Few of these answers are right, and
different seeds have few answers in common. Nobody looks at them during development, so nothing can
be tuned to them. They are graded in one job, and so are as many different right answers. A class is
graded in as many jobs as there are processors. Half of its answers are right, and answers repeat by
Zipf's law: the second most frequent occurs half as often as the first. For a class, the last column
is the wall time of the whole run.

PYTHON is the interpreter of an environment in which another version of headcheck is installed. That
version grades the same files after this one, and the second row shows its times as multiples of
this version's.
"""

import json
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks import spending
from benchmarks.spending import ROOT, Command, Usage
from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import AnswerKind
from headcheck.grader.audit.matrix import load_answers
from headcheck.grader.audit.mutants import mutate_source

EXERCISE = BY_SLUG["multi_head_attention"]
COUNT, SEED = 60, 1
HEADER = """\
| answers | mean s | median | 95 % | most | CPU s each |
|---|---|---|---|---|---|"""
CLASS_HEADER = """\
| answers | mean s | median | 95 % | most | CPU s each | wall s |
|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class GradingTime:
    """The cost of grading a folder: each answer's wall time, and the processor time of all."""

    seconds: Sequence[float]
    usage: Usage
    as_class: bool

    @property
    def figures(self) -> tuple[float, ...]:
        """Mean, median, 95th percentile, maximum, processor time per answer, wall time of all."""
        ordered = sorted(self.seconds)
        late = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
        middle = statistics.median(ordered)
        each = self.usage.cpu / len(ordered)
        whole = (self.usage.wall,) if self.as_class else ()
        return statistics.mean(ordered), middle, late, ordered[-1], each, *whole


def main() -> None:
    """Measure and print."""
    is_class, words = sys.argv[1:2] == ["class"], sys.argv[1:]
    words = words[is_class:]
    count, seed = [*map(int, words[:2]), *(COUNT, SEED)[len(words[:2]) :]]
    pythons = [sys.executable, *words[2:3]]
    draw = random.Random(seed)
    known = list_right_sources()
    right = draw.sample(known, min(len(known), count))
    wrong = draw_unseen(min(COUNT, count), draw)
    if is_class:
        drawn = [draw_by_zipf(each, count // 2, draw) for each in (wrong, right)]
        kinds = {f"a class of {count}": [*drawn[0], *drawn[1]]}
        different = len(set(kinds[f"a class of {count}"]))
        print(f"{different} different answers of {count}, seed {seed}\n\n{CLASS_HEADER}")
    else:
        kinds = {"unseen": wrong, "right": right}
        print(f"{len(wrong)} and {len(right)} answers, seed {seed}\n\n{HEADER}")
    for name, sources in kinds.items():
        taken = [grade(sources, python, as_class=is_class) for python in pythons]
        for row in format_rows(name, taken):
            print(row, flush=True)


def list_right_sources() -> list[str]:
    """Return the right answers of the bank that import nothing but torch."""
    known = load_answers(EXERCISE)
    return [a.source for a in known if a.kind in (AnswerKind.SOLUTION, AnswerKind.RIGHT)]


def draw_unseen(count: int, draw: random.Random) -> list[str]:
    """Return `count` different answers, each a right one with two changes."""
    found: dict[str, None] = {}
    while len(found) < count:
        once = draw.choice(mutate_source(draw.choice(list_right_sources()))).source
        twice = draw.choice(mutate_source(once)).source
        if runs(twice):
            found.setdefault(twice)
    return list(found)


def runs(source: str) -> bool:
    """Whether an answer can be built and called once, as its author would try it."""
    namespace: dict[str, Any] = {"__name__": "tried"}
    try:
        exec(compile(source, "tried", "exec"), namespace)  # our own, changed
        module = namespace[EXERCISE.contract.name](6, 8, 5, 0.0, 2)
        return bool(module(torch.ones(2, 5, 6)).shape)
    except Exception:
        return False


def draw_by_zipf(sources: Sequence[str], count: int, draw: random.Random) -> list[str]:
    """Draw `count` of these answers; the n-th with a probability proportional to 1/n."""
    weights = [1 / rank for rank in range(1, len(sources) + 1)]
    return draw.choices(sources, weights, k=count)


def grade(sources: Sequence[str], python: str, *, as_class: bool) -> GradingTime:
    """Grade answers with an installed version, after a first run that is not measured."""
    with tempfile.TemporaryDirectory() as scratch:
        home, one, all_ = (Path(scratch, name) for name in ("home", "one", "all"))
        home.mkdir()
        write(sources[:1], one)
        write(sources, all_)
        jobs = () if as_class else ("--jobs", "1")
        run(one, home, python, jobs)
        usage = run(all_, home, python, jobs)
    records = json.loads(usage.stdout)["submissions"]
    return GradingTime([each["seconds"] for each in records], usage, as_class)


def write(sources: Sequence[str], folder: Path) -> None:
    """Write the submissions of a class; no two files are the same."""
    folder.mkdir()
    for number, source in enumerate(sources):
        Path(folder, f"student{number:04}.py").write_text(f"# student {number}\n{source}\n")


def run(folder: Path, home: Path, python: str, jobs: Sequence[str]) -> Usage:
    """Grade a folder on the public cases."""
    words = (python, "-m", "headcheck", "grade", str(folder), "--exercise", EXERCISE.slug)
    options = ("--format", "json", *jobs, "--seed", "0")
    where = ROOT if python == sys.executable else home
    return spending.run(Command((*words, *options), where), home, ok_statuses=(0, 1))


def format_rows(name: str, taken: Sequence[GradingTime]) -> list[str]:
    """Return the rows of the table: this version, and another one as a multiple of it."""
    ours, *others = [each.figures for each in taken]
    rows = [(name, [f"{x:.2f}" for x in ours])]
    for other in others:
        ratios = [f"× {theirs / own:.2f}" for theirs, own in zip(other, ours, strict=True)]
        rows.append((f"{name}, by the other version", ratios))
    return [f"| {' | '.join([first, *cells])} |" for first, cells in rows]


if __name__ == "__main__":
    main()
