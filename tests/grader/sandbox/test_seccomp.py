"""The filter of system calls, run in a model of the kernel's machine, and against libseccomp.

Both machines are tried on either: a program is numbers, and needs no processor of its kind.
"""

import ctypes
import errno
import os
import struct
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcheck.grader.sandbox.server_side.jail import seccomp
from headcheck.grader.sandbox.server_side.jail.seccomp import (
    AUDIT_ARCH,
    CONDITIONAL,
    NUMBERS,
    SELF_ONLY,
    UNIMPLEMENTED,
    ArgumentFilter,
)

MACHINES = sorted(NUMBERS)
PID = 4321
EPERM, ENOSYS = seccomp.ERRNO | errno.EPERM, seccomp.ERRNO | errno.ENOSYS
FORBIDDEN = set(
    """
    fork vfork execve execveat socket socketpair connect bind listen accept sendto kill tkill
    rt_sigqueueinfo pidfd_send_signal pidfd_open ptrace process_vm_readv process_vm_writev
    memfd_create unshare setns mount umount2 pivot_root chroot chmod fchmod fchmodat chown link
    linkat symlink symlinkat mknod mknodat setuid setgid setgroups setpriority sched_setaffinity
    io_uring_setup io_uring_enter bpf keyctl add_key userfaultfd perf_event_open
    open_by_handle_at name_to_handle_at shmget shmat msgget semget mq_open personality setrlimit
    landlock_restrict_self seccomp init_module reboot swapon syslog quotactl kcmp fanotify_init
    inotify_init1 signalfd4 timer_create setpgid setsid utimensat fallocate mlock
""".split()  # noqa: SIM905 - more readable than sixty strings
)


def run(program: bytes, machine: int, number: int, arguments: tuple[int, ...]) -> int:
    """What a classic BPF program answers about one system call."""
    data = struct.pack("<iIQ6Q", number, machine, 0, *arguments, *[0] * (6 - len(arguments)))
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, operand = struct.unpack_from("HBBI", program, 8 * at)
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, operand)
            case 0x54:
                accumulator &= operand
            case 0x05:
                at += operand
            case 0x15:
                at += if_true if accumulator == operand else if_false
            case 0x25:
                at += if_true if accumulator > operand else if_false
            case 0x35:
                at += if_true if accumulator >= operand else if_false
            case 0x45:
                at += if_true if accumulator & operand else if_false
            case 0x06:
                return int(operand)
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")


def answer(name: str, machine: str, *arguments: int) -> int:
    program = seccomp.build_program(PID, machine)
    return run(program, AUDIT_ARCH[machine], NUMBERS[machine][name], arguments)


class Reference:
    """libseccomp, where it is installed: numbers by name, and the filter that it would make."""

    def __init__(self) -> None:
        try:
            self.library = ctypes.CDLL("libseccomp.so.2")
        except OSError:
            pytest.skip("libseccomp is not installed")
        self.library.seccomp_init.restype = ctypes.c_void_p

    def number(self, name: str, machine: str) -> int:
        arch = ctypes.c_uint32(AUDIT_ARCH[machine])
        return int(self.library.seccomp_syscall_resolve_name_arch(arch, name.encode()))

    def program(self, machine: str) -> bytes:
        made = ctypes.c_void_p(self.library.seccomp_init(ctypes.c_uint32(EPERM)))
        assert made.value
        for other in AUDIT_ARCH.values():
            self.library.seccomp_arch_remove(made, ctypes.c_uint32(other))
        self._checked("arch_add", made, ctypes.c_uint32(AUDIT_ARCH[machine]))
        self._checked("attr_set", made, 2, ctypes.c_uint32(seccomp.KILL))  # another architecture
        conditional = {**CONDITIONAL, SELF_ONLY: ArgumentFilter(0, (PID,))}
        for name in NUMBERS["x86_64"]:
            for action, comparisons in self._rules(name, conditional.get(name)):
                native = self.library.seccomp_syscall_resolve_name(name.encode())
                array = (Comparison * max(1, len(comparisons)))(*comparisons)
                action_, count = ctypes.c_uint32(action), len(comparisons)
                self._checked("rule_add_array", made, action_, native, count, array)
        with tempfile.TemporaryFile() as file:
            self._checked("export_bpf", made, file.fileno())
            return os.pread(file.fileno(), 1 << 20, 0)

    def _rules(
        self, name: str, only: ArgumentFilter | None
    ) -> Iterator[tuple[int, list["Comparison"]]]:
        if name in UNIMPLEMENTED:
            yield ENOSYS, []
        elif only is None:
            yield seccomp.ALLOW, []
        else:
            for value in only.values:
                yield seccomp.ALLOW, [Comparison(only.argument, 7, only.mask, value)]

    def _checked(self, function: str, *arguments: object) -> None:
        result = getattr(self.library, f"seccomp_{function}")(*arguments)
        assert result == 0, f"{function}: {result}"


class Comparison(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operation", ctypes.c_int),
        ("mask", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
    )


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference()


def test_the_numbers_are_those_of_libseccomp(reference: Reference) -> None:
    for machine in MACHINES:
        for name, number in NUMBERS[machine].items():
            assert reference.number(name, machine) == number, (name, machine)
        for name in NUMBERS["x86_64"].keys() - NUMBERS[machine].keys():
            assert reference.number(name, machine) < 0, f"{machine} has {name}"


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_is_answered_as_by_libseccomp(machine: str, reference: Reference) -> None:
    ours, theirs = seccomp.build_program(PID, machine), reference.program(machine)
    conditional = {NUMBERS[machine][name] for name in (*CONDITIONAL, SELF_ONLY)}
    few = [(0,) * 6, (2**64 - 1,) * 6]
    values = {PID, 1 << 32, (1 << 32) + PID, -1 % 2**64}
    values |= {v + d for only in CONDITIONAL.values() for v in only.values for d in (-1, 0, 1)}
    many = [(v % 2**64,) * 6 for v in values] + [(0x3D0F00,) * 6, (0x3D0F00 | 1 << 28,) * 6]
    for number in [*range(600), *range(0x40000000, 0x40000010)]:
        for arguments in many if number in conditional else few:
            given = AUDIT_ARCH[machine], number, arguments
            if machine != "x86_64" and number >= 0x40000000:
                continue
            assert run(ours, *given) == run(theirs, *given), (number, arguments)


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.integers(0, 2**31 - 1), argument=st.integers(0, 2**64 - 1))
def test_a_call_that_is_not_listed_is_refused(machine: str, number: int, argument: int) -> None:
    found = run(seccomp.build_program(PID, machine), AUDIT_ARCH[machine], number, (argument,) * 6)
    if number not in NUMBERS[machine].values():
        assert found == (seccomp.KILL if machine == "x86_64" and number >= 1 << 30 else EPERM)


EDGES = (2**29, 2**30 - 1, 2**30, 2**30 + 1, 2**31 - 1, -1, -(2**31))
"""numbers where a comparison could wrap around; negative ones are large to the kernel's machine"""


@pytest.mark.parametrize("machine", MACHINES)
def test_every_number_is_answered_as_the_table_says(machine: str) -> None:
    """The whole range of a kernel's table, the gaps, what lies above, and x32's numbers."""
    program, names = (
        seccomp.build_program(PID, machine),
        {n: k for k, n in NUMBERS[machine].items()},
    )
    x32 = range(1 << 30, (1 << 30) + 1024)
    for number in (*range(-16, 1100), *x32, *EDGES):
        found = run(program, AUDIT_ARCH[machine], number, (2**64 - 1,) * 6)
        name = names.get(number)
        if name in UNIMPLEMENTED:
            assert found == ENOSYS, name
        elif name is not None and name not in (*CONDITIONAL, SELF_ONLY):
            assert found == seccomp.ALLOW, name
        elif machine == "x86_64" and number % 2**32 >= 1 << 30:
            assert found == seccomp.KILL, number
        else:  # on no list, or with arguments that are on none
            assert found == EPERM, (number, name)


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_architecture_end_the_process(machine: str) -> None:
    program = seccomp.build_program(PID, machine)
    others = {AUDIT_ARCH[m] for m in MACHINES if m != machine} | {0x40000003, 0x40000028, 0}
    for other in others:
        assert run(program, other, NUMBERS[machine]["read"], ()) == seccomp.KILL


@pytest.mark.parametrize("machine", MACHINES)
def test_no_process_socket_or_privilege_is_on_the_list(machine: str) -> None:
    assert not FORBIDDEN & NUMBERS[machine].keys()


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_with_conditions(machine: str) -> None:
    thread, fork, namespace = 0x3D0F00, 17, 0x10000000
    assert answer("clone", machine, thread) == seccomp.ALLOW
    for flags in (0, fork, thread | namespace, thread | 0x20000, thread | 0x2000):
        assert answer("clone", machine, flags) == EPERM
    assert answer("clone3", machine, 0, 88) == ENOSYS
    assert answer("tgkill", machine, PID, PID, 6) == seccomp.ALLOW
    for other in (0, 1, PID - 1, 2**32 - 1):
        assert answer("tgkill", machine, other, other, 9) == EPERM
    assert answer("prlimit64", machine, 0, 7) == seccomp.ALLOW
    assert answer("prlimit64", machine, 1, 7) == EPERM
    assert answer("ioctl", machine, 1, 0x5401) == seccomp.ALLOW
    assert answer("ioctl", machine, 1, 0x5412) == EPERM  # TIOCSTI: typing on a terminal
    assert answer("fcntl", machine, 3, 1) == seccomp.ALLOW
    assert answer("fcntl", machine, 3, 8) == EPERM  # F_SETOWN: signals to others
    assert answer("prctl", machine, 15) == seccomp.ALLOW
    for option in (1, 4, 22, 38):  # parent death signal, dumpable, seccomp, no_new_privs
        assert answer("prctl", machine, option) == EPERM


def test_machine_without_a_table_is_reported() -> None:
    with pytest.raises(seccomp.UnsupportedMachine, match="no table of system calls for riscv64"):
        seccomp.build_program(PID, "riscv64")
