"""What a command took counts what outlives it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REAPER = Path(__file__).parents[2] / "benchmarks" / "reaper.py"
WORKS = "import time\nwhile time.process_time() < 0.4: pass"
ORPHANED = f"""
import os
if os.fork() == 0:
    if os.fork() == 0:
        {WORKS.replace(chr(10), chr(10) + "        ")}
    os._exit(0)
os._exit(3)
"""
HOLDS = "held = bytearray(b'x' * (1 << 26)); import time; time.sleep(0.5)"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")


def took(source: str, every: float = 0.0) -> dict[str, float]:
    ours, theirs = os.pipe()
    words = [sys.executable, "-I", str(REAPER), str(theirs), str(every)]
    with os.fdopen(ours) as told:
        subprocess.run(
            [*words, sys.executable, "-I", "-S", "-c", source],
            pass_fds=[theirs],
            check=True,
            timeout=60,
        )
        os.close(theirs)
        known: dict[str, float] = json.loads(told.read())
    return known


def test_reports_exit_status_of_the_command() -> None:
    assert took("raise SystemExit(3)")["status"] == 3


def test_counts_children_never_waited_for() -> None:
    known = took(f"import os\nif os.fork():\n    os._exit(3)\n{WORKS}")
    assert known["status"] == 3
    assert known["cpu"] >= 0.4


def test_counts_orphaned_grandchildren() -> None:
    known = took(ORPHANED)
    assert known["status"] == 3
    assert known["cpu"] >= 0.4


def test_reports_largest_and_total_memory() -> None:
    known = took(f"import os\nos.fork()\n{HOLDS}", every=0.05)
    assert known["largest"] > 1 << 26
    assert known["together"] > 1 << 27
