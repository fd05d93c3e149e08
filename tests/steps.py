"""Run a step of a workflow as its machine would: in a shell that finds the command."""

import os
import subprocess
import sys
from pathlib import Path

from headcheck.grader.location import HEADCHECK


def run_step(
    folder: Path, tools: Path, step: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a step in a folder; the command is put into `tools`."""
    tools.mkdir()
    program = tools / "headcheck"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headcheck "$@"\n')
    program.chmod(0o755)
    whole = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": f"{HEADCHECK.parent}:{folder}",
        "OMP_NUM_THREADS": "1",
        **environment,
    }
    return subprocess.run(
        ["bash", "-e", "-c", step],
        cwd=folder,
        env=whole,
        capture_output=True,
        text=True,
        check=False,
    )
