"""The seccomp filter: build the program that restricts system calls, and install it.

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

from headcheck.grader.sandbox.server_side.jail import kernel
from headcheck.grader.sandbox.server_side.jail.syscalls import (
    AUDIT_ARCH,
    CONDITIONAL,
    NUMBERS,
    SELF_ONLY,
    UNIMPLEMENTED,
    ArgumentFilter,
)

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
