"""Start a fork server. It takes a while to get warm, so a command does this before all else.

Nothing heavy is imported here: while torch is loaded there, it is loaded here, too.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.sandbox.limits import ONE_THREAD

DYING_S = 5.0


@dataclass(eq=False)
class Started:
    """A fork server that is on its way. Use as a context manager if nobody may want it."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    wanted: bool = False
    """whether somebody has taken it over"""

    def close(self) -> None:
        """End it, and with it every child."""
        if not self.wanted:
            self.process.kill()  # it has no child yet, and need not get warm first
        self.control.close()
        try:
            self.process.wait(DYING_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start(without: Sequence[str] = ()) -> Started:
    """A fork server that leaves these layers of the jail out."""
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    root = str(Path(__file__).resolve().parents[2])
    arguments = [str(theirs.fileno()), str(os.getpid()), *without]
    process = subprocess.Popen(
        [sys.executable, "-m", "grader.sandbox.server", *arguments],
        pass_fds=[theirs.fileno()],
        env={
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONPATH": root,
            "PYTHONHASHSEED": "0",
            "PYTHONSAFEPATH": "1",
            # Large pages where the kernel has them: a fork then copies fewer entries.
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
            # Else torch makes a folder for its compiler, which nobody uses here.
            "TORCHINDUCTOR_CACHE_DIR": "/",
            **ONE_THREAD,
        },
        cwd="/",
        stdin=subprocess.DEVNULL,
    )
    theirs.close()
    return Started(process, control)


def ahead(device: str) -> Started | None:
    """A fork server for what will be graded on this device, where there can be one."""
    return start() if sys.platform == "linux" and device == "cpu" else None
