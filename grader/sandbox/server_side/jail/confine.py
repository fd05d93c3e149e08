"""The steps by which a child is confined; their order is explained in the package."""

import fcntl
import os
import resource
import select
import signal
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from grader.sandbox.isolation import Layer
from grader.sandbox.limits import Limits
from grader.sandbox.server_side.jail import file_grants, kernel, landlock, namespaces, seccomp

SOCKET_FD, CONFINED_FD, RULESET_FD = 3, 4, 5
SCRATCH_ENTRIES = 256
SPARE_TASKS = 256
"""room for what else the user starts while the server runs"""


@dataclass(frozen=True, slots=True)
class Jail:
    """What every child of a server shares."""

    layers: frozenset[Layer]
    server: int
    """a pidfd of the server"""
    ruleset: int | None
    stage: Path | None
    ids: tuple[int, int]
    """user and group, by their numbers outside"""
    mapped: int
    """the address space that is taken anyway, in bytes"""
    tasks: int
    """threads that the kernel counts together with those of a submission, itself included"""

    def fork(self) -> int:
        """A child, the first process of its namespaces where there are any; 0 in it."""
        return os.fork() if self.stage is None else kernel.fork_into(namespaces.CHILD_NAMESPACES)

    def attach(self, socket: int, confined: int) -> None:
        """In a child: tie it to the server, and keep no other file descriptors than these."""
        self._die_with_server()
        _keep_only(socket, confined, self.ruleset)

    def confine(self, limits: Limits) -> None:
        """In a child: afterwards the submission may run. Raises OSError."""
        if self.stage is not None:
            namespaces.set_up_namespaces(self.stage, self.ids, limits.scratch, SCRATCH_ENTRIES)
        kernel.drop_capabilities()
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
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
        gone = select.poll()
        gone.register(self.server, select.POLLIN)
        if gone.poll(0):  # it died before it could be said
            os._exit(0)


def prepare_jail(layers: Collection[Layer], stage: Path | None) -> Jail:
    """To be called once the server has mapped all that it will. Raises OSError."""
    ruleset = None
    if Layer.LANDLOCK in layers:
        version = landlock.get_abi_version() if Layer.SCOPES in layers else landlock.SCOPE_ABI - 1
        ruleset = landlock.create_ruleset(
            file_grants.compute_grants(stage), min(version, landlock.get_abi_version())
        )
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    ids = os.geteuid(), os.getegid()
    itself = os.pidfd_open(os.getpid())
    counted = count_tasks() + SPARE_TASKS if stage is None else 1
    return Jail(frozenset(layers), itself, ruleset, stage, ids, _read_mapped_bytes(), counted)


def _keep_only(socket: int, confined: int, ruleset: int | None) -> None:
    """Close every file descriptor but these; what would read or write the terminal does not."""
    nothing = os.open(os.devnull, os.O_RDWR)
    kept = [socket, confined, nothing if ruleset is None else ruleset]
    # First out of the way of one another: where standard streams were closed, numbers are low.
    out_of_the_way = [_duplicate_high(fd) for fd in kept]
    for target, fd in enumerate([_duplicate_high(nothing) for _ in range(3)]):
        os.dup2(fd, target)
    for target, fd in zip((SOCKET_FD, CONFINED_FD, RULESET_FD), out_of_the_way, strict=True):
        os.dup2(fd, target)
    kernel.close_from(RULESET_FD + 1)


def _duplicate_high(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)


def set_limits(limits: Limits, mapped: int, most_tasks: int) -> None:
    """Bound this process, never above what it is bounded by already. Raises OSError, ValueError."""
    space = resource.RLIM_INFINITY if limits.memory is None else mapped + limits.memory
    wanted = (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s),
        (resource.RLIMIT_AS, space, space),
        (resource.RLIMIT_STACK, 8 << 20, 8 << 20),
        (resource.RLIMIT_NPROC, most_tasks, most_tasks),
        (resource.RLIMIT_NOFILE, limits.open_files, limits.open_files),
        (resource.RLIMIT_FSIZE, limits.scratch, limits.scratch),
        (resource.RLIMIT_MEMLOCK, 0, 0),
    )
    for what, soft, hard in wanted:
        allowed = resource.getrlimit(what)[1]
        if allowed != resource.RLIM_INFINITY:
            soft, hard = (
                allowed if n == resource.RLIM_INFINITY else min(n, allowed) for n in (soft, hard)
            )
        resource.setrlimit(what, (soft, hard))


def _read_mapped_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return pages * resource.getpagesize()
    except OSError:
        return 8 << 30


def count_tasks() -> int:
    """How many threads the user of this process has.

    Without a user namespace the kernel counts them all together, and no new one may be too many.
    """
    found = 0
    for folder in os.scandir("/proc"):
        if folder.name.isdigit():
            try:
                text = Path(folder.path, "status").read_text(errors="replace")
            except OSError:
                continue  # it ended
            known = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            if int(known["Uid"].split()[0]) == os.getuid():
                found += int(known["Threads"])
    return found
