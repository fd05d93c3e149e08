"""Makes symbolic and hard links to what it may not read, and reads through them."""

import functools
import os


@functools.cache
def attack():
    won = []
    for place in ("/tmp", "/dev/shm", "@arena@", "."):
        for make in (os.symlink, os.link):
            for target in ("@arena@/submissions/ada.py", "/etc/passwd"):
                link = f"{place}/@token@{make.__name__}"
                try:
                    make(target, link)
                    with open(link) as file:
                        won.append((make.__name__, place, file.read(20)))
                    os.unlink(link)
                except OSError:
                    pass
    return won
