"""Makes pipes, sockets and device nodes wherever it can."""

import functools
import os
import stat


@functools.cache
def attack():
    won = []
    for place in ("@arena@", "/tmp", "/dev/shm", "."):
        for kind in (stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFREG):
            try:
                os.mknod(f"{place}/@token@{kind}", 0o666 | kind, os.makedev(1, 5))
                won.append((place, kind))
                os.unlink(f"{place}/@token@{kind}")
            except OSError:
                pass
    return won
