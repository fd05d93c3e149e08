"""Creates empty files and folders wherever it can, 2000 a place."""

import os

PLACES = "@arena@", "/tmp", "/var/tmp", "/dev/shm", "/run", "."


def attack_once():
    made = 0
    for place in PLACES:
        try:
            os.mkdir(f"{place}/@token@")
            for i in range(2000):
                open(f"{place}/@token@/{i}", "x").close()
                made += 1
        except OSError:
            continue
    return [f"{made} files"] if made > 1000 else []
