"""System calls really made: what is on no list is refused by the kernel, in every gap and above.

What the filter says of the other architecture's numbers is in `test_seccomp.py`.
"""

import ctypes
import errno
import faulthandler
import os
import platform
import struct
import sys

import pytest

from headcheck.grader.sandbox.server_side.jail import kernel, seccomp
from headcheck.grader.sandbox.server_side.jail.seccomp import NUMBERS
from tests.grader.conftest import SandboxDriver

MACHINE = platform.machine()
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or MACHINE not in NUMBERS, reason="there is no filter for this machine"
)
X32 = 0x40000000
PAST_FILTERS = {"x86_64": {335: "uretprobe", 336: "uprobe"}}.get(MACHINE, {})
"""calls of the kernel's own trampolines: since Linux 6.14 it does not ask a filter about them"""
FAR = (-1, -100, -(2**31), 2**31 - 1, 2**30 - 1, 1 << 20, 4096)
"""far from any call; the negative ones are large to the filter"""
MADE = """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    count, others = 0, {{}}
    for number in {numbers}:
        ctypes.set_errno(0)
        result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
        count += 1
        if (result, ctypes.get_errno()) != (-1, 1):
            others[number] = (result, ctypes.get_errno())
    raise ValueError((count, others))
"""
"""makes calls without arguments; tells how many, and what was answered other than EPERM"""
DENY_ALL = (
    (0x20, 0, 0, 0),  # load the number
    (0x15, 0, 1, {"x86_64": 231, "aarch64": 94}.get(MACHINE, 0)),  # exit_group, to tell the answer
    (0x06, 0, 0, seccomp.ALLOW),
    (0x06, 0, 0, seccomp.ERRNO | errno.EPERM),
)


def told(count: int, others: dict[int, tuple[int, int]]) -> str:
    return f"ValueError: {(count, others)}"


def test_every_number_that_is_not_listed_is_refused(confined_sandbox: SandboxDriver) -> None:
    """All that are listed are left out: with no arguments some of them wait for ever, or end it."""
    listed = set(NUMBERS[MACHINE].values())
    numbers = [n for n in range(1024) if n not in listed and n not in PAST_FILTERS]
    assert len(numbers) > 800
    assert confined_sandbox.get_failure(MADE.format(numbers=numbers)).message == told(
        len(numbers), {}
    )


def test_numbers_far_from_any_call_are_refused(confined_sandbox: SandboxDriver) -> None:
    for number in FAR:
        if MACHINE == "x86_64" and number % 2**32 >= X32:
            assert_ended(confined_sandbox, number)
        else:
            assert confined_sandbox.get_failure(MADE.format(numbers=[number])).message == told(
                1, {}
            )


@pytest.mark.skipif(MACHINE != "x86_64", reason="x32 is a way to call x86-64")
@pytest.mark.parametrize(
    "number", [0, 1, 2, 20, 39, 41, 56, 57, 59, 101, 231, 335, 336, 435, 512, 520, 545, 547, 1023]
)
def test_x32_numbers_end_the_process(confined_sandbox: SandboxDriver, number: int) -> None:
    assert_ended(confined_sandbox, X32 + number)


@pytest.mark.deep
@pytest.mark.skipif(MACHINE != "x86_64", reason="x32 is a way to call x86-64")
def test_every_x32_number_ends_the_process(confined_sandbox: SandboxDriver, level: str) -> None:
    for number in range(1024):
        session, module = confined_sandbox.open_with_body(MADE.format(numbers=[X32 + number]))
        with pytest.raises(Exception, match=r"the process died \(Bad system call\)"):
            confined_sandbox.call(module)
        session.close()


def assert_ended(confined_sandbox: SandboxDriver, number: int) -> None:
    failed = confined_sandbox.get_failure(MADE.format(numbers=[number]))
    assert failed.message == "the process died (Bad system call)"


@pytest.mark.parametrize("number", PAST_FILTERS)
def test_unfiltered_calls_harm_only_their_caller(
    confined_sandbox: SandboxDriver, number: int
) -> None:
    """No filter could refuse these: one that denies everything is passed by in the same way."""
    ours, deny_all = (
        seccomp.build_program(0),
        b"".join(struct.pack("HBBI", *each) for each in DENY_ALL),
    )
    assert alone(number, ours) == alone(number, deny_all)
    message = confined_sandbox.get_failure(MADE.format(numbers=[number])).message
    assert message in (
        "the process died (Illegal instruction)",
        told(1, {number: (-1, errno.ENXIO)}),
        told(1, {}),  # a kernel from before that asks
    )


def alone(number: int, program: bytes) -> int:
    """How a process with this filter ends that makes one call: by a signal, or with its error."""
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()  # pytest's, which would show where the signal came
        libc = ctypes.CDLL(None, use_errno=True)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        seccomp.install(program)
        libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
        os._exit(ctypes.get_errno())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
