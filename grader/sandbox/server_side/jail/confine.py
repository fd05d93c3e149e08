"""The steps that confine a child; the package's docstring explains their order."""

import fcntl
import os
import resource
import select
import signal
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from headcheck.grader.sandbox.isolation import Layer
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.server_side.jail import (
    file_grants,
    kernel,
    landlock,
    namespaces,
    seccomp,
)

SOCKET_FD, CONFINED_FD, RULESET_FD = 3, 4, 5
SCRATCH_ENTRIES = 256
SPARE_TASKS = 256
"""how many threads the user may start in other programs while the server runs"""


@dataclass(frozen=True, slots=True)
class Jail:
    """The confinement that all children of a server share."""

    layers: frozenset[Layer]
    server: int
    """a pidfd of the server"""
    ruleset: int | None
    stage: Path | None
    ids: tuple[int, int]
    """the user and group outside the namespaces"""
    mapped: int
    """the bytes of address space that every child has mapped from the start"""
    tasks: int
    """how many threads the kernel counts in addition to those that a submission starts"""

    def fork(self) -> int:
        """Fork a child, into new namespaces if this level has them; returns 0 in the child."""
        return os.fork() if self.stage is None else kernel.fork_into(namespaces.CHILD_NAMESPACES)

    def attach(self, socket: int, confined: int) -> None:
        """In a child, tie it to the server, and close all other file descriptors."""
        self._die_with_server()
        _keep_only(socket, confined, self.ruleset)

    def confine(self, limits: Limits) -> None:
        """In a child, take all remaining steps; then the submission may run. Raises OSError."""
        if self.stage is not None:
            namespaces.set_up_namespaces(self.stage, self.ids, limits.scratch, SCRATCH_ENTRIES)
        _drop_privileges()
        os.chdir("/" if self.stage is None else namespaces.get_scratch_folder(self.stage))
        if self.ruleset is not None:
            landlock.restrict(RULESET_FD)
        os.close(RULESET_FD)
        if Layer.RLIMITS in self.layers:
            set_limits(limits, self.mapped, limits.threads + self.tasks)
        if Layer.SECCOMP in self.layers:
            seccomp.install(seccomp.build_program(os.getpid()))

    def _die_with_server(self) -> None:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        server_end = select.poll()
        server_end.register(self.server, select.POLLIN)
        if server_end.poll(0):  # the server died before the kernel was told
            os._exit(0)


def prepare_jail(layers: Collection[Layer], stage: Path | None) -> Jail:
    """Prepare the jail, after the server has mapped all the memory it needs. Raises OSError."""
    ruleset = None
    if Layer.LANDLOCK in layers:
        version = landlock.get_abi_version()
        if Layer.SCOPES not in layers:
            version = min(version, landlock.SCOPE_ABI - 1)
        ruleset = landlock.create_ruleset(file_grants.compute_grants(stage), version)
    _drop_privileges()
    ids = os.geteuid(), os.getegid()
    server = os.pidfd_open(os.getpid())
    tasks = count_tasks() + SPARE_TASKS if stage is None else 1
    return Jail(frozenset(layers), server, ruleset, stage, ids, _read_mapped_bytes(), tasks)


def _drop_privileges() -> None:
    """Drop capabilities and every way to regain them, and refuse debuggers."""
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)


def _keep_only(socket: int, confined: int, ruleset: int | None) -> None:
    """Close every file descriptor but these, and connect the standard streams to nothing."""
    nothing = os.open(os.devnull, os.O_RDWR)
    kept = [socket, confined, nothing if ruleset is None else ruleset]
    # Move them to high numbers first: if standard streams were closed, they have the low ones.
    moved = [_duplicate_high(fd) for fd in kept]
    for target, fd in enumerate([_duplicate_high(nothing) for _ in range(3)]):
        os.dup2(fd, target)
    for target, fd in zip((SOCKET_FD, CONFINED_FD, RULESET_FD), moved, strict=True):
        os.dup2(fd, target)
    kernel.close_from(RULESET_FD + 1)


def _duplicate_high(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)


def set_limits(limits: Limits, mapped: int, max_tasks: int) -> None:
    """Set this process's limits, none above its current hard limit. Raises OSError, ValueError."""
    maxima = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_AS: (
            resource.RLIM_INFINITY if limits.memory is None else mapped + limits.memory
        ),
        resource.RLIMIT_STACK: 8 << 20,
        resource.RLIMIT_NPROC: max_tasks,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_FSIZE: limits.scratch,
        resource.RLIMIT_MEMLOCK: 0,
    }
    for kind, maximum in maxima.items():
        allowed = resource.getrlimit(kind)[1]
        if maximum == resource.RLIM_INFINITY:
            maximum = allowed
        elif allowed != resource.RLIM_INFINITY:
            maximum = min(maximum, allowed)
        resource.setrlimit(kind, (maximum, maximum))


def _read_mapped_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return pages * resource.getpagesize()
    except OSError:
        return 8 << 30


def count_tasks() -> int:
    """Count all threads of the user who runs this process.

    Without a user namespace, RLIMIT_NPROC limits their total number.
    """
    count = 0
    for folder in os.scandir("/proc"):
        if folder.name.isdigit():
            try:
                text = Path(folder.path, "status").read_text(errors="replace")
            except OSError:
                continue  # the process has ended
            fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            if int(fields["Uid"].split()[0]) == os.getuid():
                count += int(fields["Threads"])
    return count
