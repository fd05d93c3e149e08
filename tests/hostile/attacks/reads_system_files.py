"""Reads /etc/passwd, /etc/shadow and other files of the machine."""


def attack_once():
    won = []
    for path in (
        "/etc/passwd",
        "/etc/shadow",
        "/etc/hosts",
        "/root/.bashrc",
        "/root/.ssh/id_rsa",
        "/var/log/dpkg.log",
    ):
        with suppress(OSError):
            with open(path, "rb") as file:
                won.append((path, len(file.read())))
    return won
