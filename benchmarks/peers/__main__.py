"""What grading costs beside what courses use today: `python -m benchmarks.peers 12 3`.

A class of made-up students, half of them right, is graded by headcheck and by each of the peers in
turn, A B A B ..., as whole processes with everything that they start, on one torch thread. Before
that each grades a class of two, unmeasured, so that everything is compiled and in the disk's cache.
Files are laid out afresh each time; that is not measured. A tool that calls a right answer wrong,
or every wrong one right, is not set up as it should be and ends the run.

Prints a table of medians. With --plot FILE it also draws them.
"""

import argparse
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from benchmarks import spending
from benchmarks.peers import notebooks, picture, tools
from benchmarks.peers.classroom import SimulatedStudent, make_class
from benchmarks.peers.tools import Tool
from benchmarks.spending import Usage

OURS = tools.Headcheck()
PEERS: dict[str, Tool] = {
    "otter": notebooks.Otter(),
    "nbgrader-each": notebooks.NBGRADER_EACH,
    "nbgrader": notebooks.NBGRADER,
    "nbclient": notebooks.NbClient(),
    "given": tools.GIVEN,
    "pytest": tools.PYTEST_ALONE,
    "unittest": tools.UNITTEST,
    "xdist": tools.SharedProcesses(),
}
SUBMISSIONS, ROUNDS = 12, 3
CPU, WALL, LARGEST = attrgetter("cpu"), attrgetter("wall"), attrgetter("largest")
HEADER = """\
| tool | checks of a submission | CPU s each | wall s each | CPU × ours | wall × ours \
| largest process | wrong ones found |
|---|---|---|---|---|---|---|---|"""


@dataclass
class ToolMeasurement:
    """The runs of a tool, and beside each the run of ours that came before it."""

    tool: Tool
    runs: list[Usage] = field(default_factory=list)
    ours: list[Usage] = field(default_factory=list)
    wrong_found: int = 0
    """wrong answers that it took for wrong"""

    def median(self, of: Callable[[Usage], float]) -> float:
        """Over all runs."""
        return statistics.median(map(of, self.runs))

    def ratio(self, of: Callable[[Usage], float]) -> float:
        """The median of how many times as much it took as ours, pair by pair."""
        pairs = zip(self.runs, self.ours, strict=True)
        return statistics.median(of(theirs) / of(ours) for theirs, ours in pairs)


def main() -> None:
    """Measure and print."""
    asked = _parse_arguments()
    wanted = {name: PEERS[name] for name in asked.tools or PEERS}
    for name, tool in wanted.items():
        if importlib.util.find_spec(tool.needs) is None:
            text = f"{name}: no package {tool.needs} here; run `tox run -e bench`, or leave it out"
            raise SystemExit(text)
    students = make_class(asked.submissions)
    with tempfile.TemporaryDirectory() as scratch:
        measured = _measure(list(wanted.values()), students, asked.rounds, Path(scratch))
    wrong = sum(not student.is_right for student in students)
    print(f"{len(students)} notebooks, {wrong} of them wrong; rounds: {asked.rounds}\n\n{HEADER}")
    for each in measured:
        print(_format_row(each, len(students), wrong))
    if asked.plot:
        names = [each.tool.name for each in measured]
        picture.draw(names, [each.median(CPU) / len(students) for each in measured], asked.plot)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.peers")
    parser.add_argument("submissions", nargs="?", type=int, default=SUBMISSIONS)
    parser.add_argument("rounds", nargs="?", type=int, default=ROUNDS)
    parser.add_argument("--tools", nargs="+", choices=PEERS, help="these peers only")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the medians, as SVG")
    return parser.parse_args()


def _measure(
    peers: Sequence[Tool], students: Sequence[SimulatedStudent], rounds: int, scratch: Path
) -> list[ToolMeasurement]:
    """Ours first, then the peers in their order."""
    ours, others = ToolMeasurement(OURS), [ToolMeasurement(peer) for peer in peers]
    for each in (ours, *others):
        _grade(each, make_class(2), scratch)
    for each in others:
        for _ in range(rounds):
            ours.runs.append(_grade(ours, students, scratch))
            each.ours.append(ours.runs[-1])
            each.runs.append(_grade(each, students, scratch))
    ours.ours = ours.runs
    return [ours, *others]


def _grade(measured: ToolMeasurement, students: Sequence[SimulatedStudent], scratch: Path) -> Usage:
    """One run over the class. Raises SystemExit when right answers are called wrong."""
    tool, home = measured.tool, scratch / "home"
    home.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        commands = tool.lay_out(students, Path(name), home)
        ran = [spending.run(command, home, ok_statuses=tool.ok_statuses) for command in commands]
        passed = tool.find_passed(students, Path(name), ran)
    accused = [s.answer.name for s in students if s.is_right and s.name not in passed]
    if accused:
        raise SystemExit(f"{tool.name} calls right answers wrong: {', '.join(accused)}")
    measured.wrong_found = sum(not s.is_right and s.name not in passed for s in students)
    if not measured.wrong_found:
        raise SystemExit(f"{tool.name} calls every wrong answer right: is it set up?")
    spent = spending.sum_usage(ran)
    now = time.strftime("%H:%M:%S")
    print(f"{now} {tool.name}: {spent.cpu:.2f} s of CPU, {spent.wall:.2f} s", flush=True)
    return spent


def _format_row(measured: ToolMeasurement, count: int, wrong: int) -> str:
    cells = [
        measured.tool.name,
        measured.tool.checks,
        f"{measured.median(CPU) / count:.3f}",
        f"{measured.median(WALL) / count:.3f}",
        f"{measured.ratio(CPU):.1f}",
        f"{measured.ratio(WALL):.1f}",
        f"{measured.median(LARGEST) / 1e6:.0f} MB",
        f"{measured.wrong_found} of {wrong}",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
