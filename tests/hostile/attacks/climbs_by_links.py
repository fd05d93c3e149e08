"""Makes symbolic and hard links to what it may not read, and reads through them."""

import os


def attack_once():
    won = []
    for place in ("/tmp", "/dev/shm", "@arena@", "."):
        for make in (os.symlink, os.link):
            for target in ("@arena@/submissions/ada.py", "/etc/passwd"):
                link = f"{place}/@token@{make.__name__}"
                with suppress(OSError):
                    make(target, link)
                    with open(link) as file:
                        won.append((make.__name__, place, file.read(20)))
                    os.unlink(link)
    return won
