"""Makes pipes, sockets and device nodes wherever it can."""

import os
import stat


def attack_once():
    won = []
    for place in ("@arena@", "/tmp", "/dev/shm", "."):
        for kind in (stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFREG):
            with suppress(OSError):
                os.mknod(f"{place}/@token@{kind}", 0o666 | kind, os.makedev(1, 5))
                won.append((place, kind))
                os.unlink(f"{place}/@token@{kind}")
    return won
