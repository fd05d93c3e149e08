"""Programs that run in an interpreter of their own, with the headcheck that is tested."""

import os
import subprocess
import sys
from pathlib import Path

from headcheck.grader.location import HEADCHECK


def run_python(
    *arguments: str, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run an interpreter with these arguments; whatever it prints is kept."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HEADCHECK.parent), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
