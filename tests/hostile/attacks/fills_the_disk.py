"""Writes files of 12 MiB wherever it can, six of them in each place."""

PLACES = ".", "@arena@", "/tmp", "/var/tmp", "/dev/shm", "/run", "/"


def attack_once():
    written = 0
    for place in PLACES:
        for i in range(6):
            try:
                with open(f"{place}/@token@{i}", "wb") as file:
                    file.write(bytes(12 << 20))
                    written += 12 << 20
            except OSError:
                break
    return [f"{written} bytes"] if written > 64 << 20 else []
