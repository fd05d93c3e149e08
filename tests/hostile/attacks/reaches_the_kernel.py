"""Calls what a confined process has no use for: bpf, userfaultfd, perf, keys, modules and more."""

import ctypes
import errno
import platform

libc = ctypes.CDLL(None, use_errno=True)
X86 = {
    "ptrace": 101,
    "syslog": 103,
    "personality": 135,
    "vhangup": 153,
    "modify_ldt": 154,
    "acct": 163,
    "swapon": 167,
    "sethostname": 170,
    "iopl": 172,
    "ioperm": 173,
    "create_module": 174,
    "init_module": 175,
    "quotactl": 179,
    "lookup_dcookie": 212,
    "mbind": 237,
    "set_mempolicy": 238,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "migrate_pages": 256,
    "vmsplice": 278,
    "move_pages": 279,
    "perf_event_open": 298,
    "fanotify_init": 300,
    "clock_adjtime": 305,
    "kcmp": 312,
    "finit_module": 313,
    "bpf": 321,
    "userfaultfd": 323,
}
ANY = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_open": 434,
    "clone3": 435,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "process_mrelease": 448,
    "map_shadow_stack": 453,
    "lsm_set_self_attr": 460,
}
REFUSED = {errno.EPERM, errno.ENOSYS, errno.EACCES}


def attack_once():
    numbers = ANY | (X86 if platform.machine() == "x86_64" else {})
    won = []
    for name, number in numbers.items():
        ctypes.set_errno(0)
        if libc.syscall(number, -1, -1, -1, -1, -1, -1) >= 0 or ctypes.get_errno() not in REFUSED:
            won.append((name, ctypes.get_errno()))
    return won
