"""The seccomp filter: which system calls a submission may make, and the program that says so.

Python, torch and threads need these calls to compute, to read the files that Landlock grants, and
to write into the scratch folder. None creates a process or a socket, or changes the user. The tests
compare the numbers with libseccomp.

Theory of operation
    The kernel runs a classic BPF program before every system call. The program sees the machine's
    architecture, the call's number, and its arguments as numbers, but not what they point to. Our
    program is a list of comparisons. A call that uses another architecture's numbers kills the
    process. A call that is not on our list returns EPERM. For some calls an argument is compared,
    too. Arguments have 64 bits, of which only the lower 32 are compared, because the kernel itself
    uses only those of the arguments in question.

    A filter cannot be removed, and threads inherit it. It needs no_new_privs. Since Linux 6.14, two
    calls bypass every filter: uretprobe and uprobe (335 and 336 on x86-64). They have an effect
    only in the kernel's own trampolines.

Source: Linux, Documentation/userspace-api/seccomp_filter.rst.
"""

import ctypes
import errno
import platform
import signal
import struct
from dataclasses import dataclass

from headcheck.grader.sandbox.server_side.jail import kernel

FULL_MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class ArgumentFilter:
    """Allow a call if one of its arguments, after masking, is one of these values."""

    argument: int
    values: tuple[int, ...]
    mask: int = FULL_MASK


AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_TABLE = """
read 0 63, write 1 64, open 2 -, close 3 57,
stat 4 -, fstat 5 80, lstat 6 -, poll 7 -,
lseek 8 62, mmap 9 222, mprotect 10 226, munmap 11 215,
brk 12 214, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139,
ioctl 16 29, pread64 17 67, pwrite64 18 68, readv 19 65,
writev 20 66, access 21 -, pipe 22 -, select 23 -,
sched_yield 24 124, mremap 25 216, madvise 28 233, dup 32 23,
dup2 33 -, pause 34 -, nanosleep 35 101, getitimer 36 102,
alarm 37 -, setitimer 38 103, sendfile 40 71, getpid 39 172,
clone 56 220, exit 60 93, uname 63 160, fcntl 72 25,
fsync 74 82, fdatasync 75 83, truncate 76 45, ftruncate 77 46,
getdents 78 -, getcwd 79 17, chdir 80 49, fchdir 81 50,
rename 82 -, mkdir 83 -, rmdir 84 -, unlink 87 -,
readlink 89 -, umask 95 166, gettimeofday 96 169, getrlimit 97 163,
getrusage 98 165, sysinfo 99 179, times 100 153, getuid 102 174,
getgid 104 176, geteuid 107 175, getegid 108 177, getppid 110 173,
getpgrp 111 -, getgroups 115 158, getresuid 118 148, getresgid 120 150,
rt_sigpending 127 136, rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132,
statfs 137 43, fstatfs 138 44, prctl 157 167, arch_prctl 158 -,
gettid 186 178, time 201 -, futex 202 98, sched_getaffinity 204 123,
getdents64 217 61, set_tid_address 218 96, restart_syscall 219 128, fadvise64 221 223,
clock_gettime 228 113, clock_getres 229 114, clock_nanosleep 230 115, exit_group 231 94,
tgkill 234 131, openat 257 56, mkdirat 258 34, newfstatat 262 79,
unlinkat 263 35, renameat 264 38, readlinkat 267 78, faccessat 269 48,
pselect6 270 72, ppoll 271 73, set_robust_list 273 99, dup3 292 24,
pipe2 293 59, preadv 295 69, pwritev 296 70, prlimit64 302 261,
getcpu 309 168, renameat2 316 276, getrandom 318 278, membarrier 324 283,
copy_file_range 326 285, statx 332 291, rseq 334 293, clone3 435 435,
faccessat2 439 439
"""
"""name, number on x86-64, number on aarch64; "-" where the architecture does not have the call"""


def _parse_column(which: int) -> dict[str, int]:
    rows = (row.split() for row in _TABLE.split(","))
    return {row[0]: int(row[which]) for row in rows if row[which] != "-"}


NUMBERS = {"x86_64": _parse_column(1), "aarch64": _parse_column(2)}
"""numbers by name, for each machine"""

CLONE_THREAD = 0x10000
_NAMESPACES, _TRACED = 0x7E020000, 0x00802000
_CLONE_MASK = CLONE_THREAD | _NAMESPACES | _TRACED

CONDITIONAL = {
    # Start a thread in the same namespaces, without a tracer.
    "clone": ArgumentFilter(0, (CLONE_THREAD,), _CLONE_MASK),
    # The names of threads and of anonymous memory.
    "prctl": ArgumentFilter(0, (15, 16, 0x53564D41)),
    # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
    "ioctl": ArgumentFilter(1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),
    "fcntl": ArgumentFilter(1, (0, 1, 2, 3, 4, 1030)),  # duplicate, and flags
    "prlimit64": ArgumentFilter(0, (0,)),  # its own limits
    # Its own processors: the call would reveal which other processes exist.
    "sched_getaffinity": ArgumentFilter(0, (0,)),
}
UNIMPLEMENTED = ("clone3",)
"""calls that fail with ENOSYS, as on an older kernel; the C library then falls back on older
calls"""
SELF_ONLY = "tgkill"
"""the call that may target only the process itself. Threads raise signals with it. SIGKILL is not
allowed, since a submission whose process is killed loses no points for it"""

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _AND, _RETURN, _EQUAL, _AT_LEAST = 0x20, 0x54, 0x06, 0x15, 0x35
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000
_MODE_FILTER = 2

Instruction = tuple[int, int, int, int]
"""code, instructions to skip if true, instructions to skip if false, operand"""


class UnsupportedMachine(Exception):
    """We have no table of system calls for this machine's architecture."""


def build_program(pid: int, machine: str | None = None) -> bytes:
    """Build the filter for the process with this pid. Raises UnsupportedMachine."""
    name = machine or platform.machine()
    if name not in NUMBERS:
        raise UnsupportedMachine(
            f"there is no table of system calls for {name}, only for x86-64, aarch64"
        )
    return b"".join(struct.pack("HBBI", *each) for each in _build_instructions(pid, name))


def _build_instructions(pid: int, machine: str) -> list[Instruction]:
    numbers = NUMBERS[machine]
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, KILL)]
    own_signals = [*_refuse(2, signal.SIGKILL), *_check_argument(ArgumentFilter(0, (pid,)))]
    code += _match_call(numbers[SELF_ONLY], own_signals)
    for call in UNIMPLEMENTED:
        code += _match_call(numbers[call], [(_RETURN, 0, 0, ERRNO | errno.ENOSYS)])
    for call, condition in CONDITIONAL.items():
        code += _match_call(numbers[call], _check_argument(condition))
    for call in sorted(numbers.keys() - CONDITIONAL.keys() - {*UNIMPLEMENTED, SELF_ONLY}):
        code += _match_call(numbers[call], [(_RETURN, 0, 0, ALLOW)])
    return [*code, (_RETURN, 0, 0, ERRNO | errno.EPERM)]


def _match_call(number: int, then: list[Instruction]) -> list[Instruction]:
    return [(_EQUAL, 0, len(then), number), *then]


def _refuse(argument: int, value: int) -> list[Instruction]:
    """Refuse a call if an argument has this value; otherwise continue with the next instruction."""
    return [
        (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
        (_EQUAL, 0, 1, value),
        (_RETURN, 0, 0, ERRNO | errno.EPERM),
    ]


def _check_argument(condition: ArgumentFilter) -> list[Instruction]:
    """Check an argument and return in either case, since the call's number is no longer loaded."""
    values = condition.values
    return [
        (_LOAD, 0, 0, _ARGUMENTS + 8 * condition.argument),
        (_AND, 0, 0, condition.mask),
        *((_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)),
        (_RETURN, 0, 0, ERRNO | errno.EPERM),
        (_RETURN, 0, 0, ALLOW),
    ]


def install(code: bytes) -> None:
    """Filter all further system calls of this process. Raises OSError."""
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))  # sock_fprog
    holder = ctypes.create_string_buffer(program, len(program))
    kernel.prctl(kernel.PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(holder))
