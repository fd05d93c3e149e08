"""Run a command until all processes that it started have ended, and report the cost.

    python -I benchmarks/reaper.py FD EVERY COMMAND...

It writes one line of JSON to a file descriptor: exit status, wall and processor seconds, and bytes
of memory. Wall time ends with the command. Processor time is that of the whole tree: this process
is the subreaper, so whatever outlives its parent (a fork server of multiprocessing, say, and all
that it has waited for) becomes its own child, is waited for, and counts. A run in which some
process does not end is refused.

Memory is the peak of the largest process. If EVERY is not 0, it is also the largest sum over all
processes at one moment, sampled every EVERY seconds: the sum of their proportional set sizes, so
that pages shared by several processes count once. Sampling takes time, so leave it out when time is
measured.

The reaper is a small process of its own, because the kernel adds up usage over the life of a
process, and counts the parent's memory as the child's, too.
"""

import ctypes
import json
import os
import resource
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
ENDING_S = 60.0


def main(fd: int, every: float, command: list[str]) -> None:
    """Run the command, wait, and write the cost."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this kernel has no subreapers")
    began = time.monotonic()
    pid = os.posix_spawnp(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_CLOSE, fd)]
    )
    together = wait_sampling_memory(pid, every)
    wall = time.monotonic() - began
    status = reap_children(pid)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    usage = {
        "status": status,
        "wall": wall,
        "cpu": used.ru_utime + used.ru_stime,
        "largest": used.ru_maxrss * 1024,
        "together": together,
    }
    os.write(fd, json.dumps(usage).encode())


def wait_sampling_memory(pid: int, every: float) -> int:
    """Wait for a child to end; return the most memory all descendants held at one moment."""
    poll = select.poll()
    poll.register(os.pidfd_open(pid), select.POLLIN)
    most = 0
    while not poll.poll(1000 * every or None):
        most = max(most, sum(measure_memory(each) for each in find_descendants(os.getpid())))
    return most


def reap_children(pid: int) -> int:
    """Wait for all present and future children; return the exit status of this one."""
    status, limit = 0, time.monotonic() + ENDING_S
    while True:
        try:
            ended, code = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if ended == pid:
            status = os.waitstatus_to_exitcode(code)
        elif ended == 0:
            if time.monotonic() > limit:
                left = [get_command_line(each) for each in find_descendants(os.getpid())]
                raise SystemExit(f"still running {ENDING_S:g} s after the command ended: {left}")
            time.sleep(0.01)


def find_descendants(pid: int) -> Iterator[int]:
    """Yield the descendants of a process that can be found while processes come and go."""
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from find_descendants(int(child))
    except OSError:
        return


def measure_memory(pid: int) -> int:
    """Return the proportional set size of a process, in bytes; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def get_command_line(pid: int) -> str:
    """Return the command line of a process, for a message."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return str(pid)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
