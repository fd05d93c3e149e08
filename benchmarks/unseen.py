"""What answers cost that nobody has seen: `python -m benchmarks.unseen [COUNT] [SEED] [PYTHON]`.

A right answer to `multi_head_attention`, in one of the styles of the bank, gets two changes, each
drawn from all that `exercises/mutants.py` knows. Those that crash on a first call are drawn again:
students see that themselves. Few of these answers are right, and no two seeds have many in common:
development looks at none of them, so nothing can be tuned to them. They are graded in one job, and
so are as many right answers. Then a class is graded as classes are: half of it right, and answers
repeated by Zipf's law, the second most frequent half as often as the first.

PYTHON is the interpreter of an environment in which another version is installed: it grades the
same files after this one, and the second row has what it took in times of what this one took.
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
from exercises import BY_SLUG
from exercises.answers import AnswerKind
from exercises.mutants import mutate_source
from grader.audit.matrix import load_answers

EXERCISE = BY_SLUG["multi_head_attention"]
COUNT, SEED = 60, 1
HEADER = """\
| answers | mean s | median | 95 % | most | CPU s each |
|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class GradingTime:
    """What grading a folder took: each answer's wall time, and the processor time of all."""

    seconds: Sequence[float]
    usage: Usage

    @property
    def figures(self) -> tuple[float, ...]:
        """Mean, median, the 95th percentile and the most, and the processor time of each answer."""
        ordered = sorted(self.seconds)
        late = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
        middle = statistics.median(ordered)
        each = self.usage.cpu / len(ordered)
        return statistics.mean(ordered), middle, late, ordered[-1], each


def main() -> None:
    """Measure and print."""
    count, seed = [*map(int, sys.argv[1:3]), *(COUNT, SEED)[len(sys.argv[1:3]) :]]
    pythons = [sys.executable, *sys.argv[3:4]]
    draw = random.Random(seed)
    wrong = draw_unseen(count, draw)
    right = [draw.choice(list_right_sources()) for _ in range(count)]
    kinds = {
        "unseen": wrong,
        "right": right,
        "a class": [*draw_by_zipf(wrong, count // 2, draw), *draw_by_zipf(right, count // 2, draw)],
    }
    print(f"{count} answers, seed {seed}\n\n{HEADER}")
    for name, sources in kinds.items():
        taken = [grade(sources, python) for python in pythons]
        for row in format_rows(name, taken):
            print(row, flush=True)


def list_right_sources() -> list[str]:
    """Return the right answers of the bank that import nothing but torch."""
    known = load_answers(EXERCISE)
    return [a.source for a in known if a.kind in (AnswerKind.SOLUTION, AnswerKind.RIGHT)]


def draw_unseen(count: int, draw: random.Random) -> list[str]:
    """Return so many different answers, each a right one with two changes."""
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
    """Return so many answers; the n-th of those given is drawn as often as 1 / n."""
    weights = [1 / rank for rank in range(1, len(sources) + 1)]
    return draw.choices(sources, weights, k=count)


def grade(sources: Sequence[str], python: str) -> GradingTime:
    """Grade them with an installation, in one job, after a first run that nobody measures."""
    with tempfile.TemporaryDirectory() as scratch:
        home, one, all_ = (Path(scratch, name) for name in ("home", "one", "all"))
        home.mkdir()
        write(sources[:1], one)
        write(sources, all_)
        run(one, home, python)
        usage = run(all_, home, python)
    records = json.loads(usage.stdout)["submissions"]
    return GradingTime([each["seconds"] for each in records], usage)


def write(sources: Sequence[str], folder: Path) -> None:
    """Write what students hand in: no two files are the same."""
    folder.mkdir()
    for number, source in enumerate(sources):
        Path(folder, f"student{number:04}.py").write_text(f"# student {number}\n{source}\n")


def run(folder: Path, home: Path, python: str) -> Usage:
    """Grade a folder on the public cases."""
    words = (python, "-m", "grader", "grade", str(folder), "--exercise", EXERCISE.slug)
    options = ("--format", "json", "--jobs", "1", "--seed", "0")
    where = ROOT if python == sys.executable else home
    return spending.run(Command((*words, *options), where), home, ok_statuses=(0, 1))


def format_rows(name: str, taken: Sequence[GradingTime]) -> list[str]:
    """Return the rows of the table: this version, and another in times of it."""
    ours, *others = [each.figures for each in taken]
    rows = [(name, [f"{x:.2f}" for x in ours])]
    for other in others:
        ratios = [f"× {theirs / own:.2f}" for theirs, own in zip(other, ours, strict=True)]
        rows.append((f"{name}, by the other version", ratios))
    return [f"| {' | '.join([first, *cells])} |" for first, cells in rows]


if __name__ == "__main__":
    main()
