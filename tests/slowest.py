"""The slowest test files of a run: `python -m tests.slowest JUNIT.xml [N]`.

Seconds are those of JUnit's file: of each test with its fixtures, on whatever else the machine did.
"""

import sys
from collections import Counter, defaultdict
from pathlib import Path
from xml.etree import ElementTree


def add_up(report: Path) -> tuple[dict[str, float], Counter[str]]:
    """Return the seconds and the number of tests of each file of a JUnit report."""
    seconds: dict[str, float] = defaultdict(float)
    tests = Counter[str]()
    for case in ElementTree.parse(report).iter("testcase"):
        names = case.get("classname", "").split(".")
        last = next((i for i, name in enumerate(names) if name.startswith("test_")), len(names) - 1)
        path = "/".join(names[: last + 1]) + ".py"
        seconds[path] += float(case.get("time", 0))
        tests[path] += 1
    return seconds, tests


def show(report: Path, most: int) -> str:
    """Return a table of the slowest files, the slowest first."""
    seconds, tests = add_up(report)
    slowest = sorted(seconds.items(), key=lambda each: -each[1])
    lines = [f"{sum(tests.values())} tests took {sum(seconds.values()):.0f} s of one process"]
    lines += [f"{took:8.1f} s {tests[path]:6}  {path}" for path, took in slowest[:most]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(show(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20))
