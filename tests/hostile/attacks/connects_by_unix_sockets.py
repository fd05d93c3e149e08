"""Connects to unix sockets, by path, by abstract name, and with datagrams."""

import socket


def attack_once():
    won = []
    for address in ("@unix@", "\0@abstract@"):
        with suppress(OSError):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(address)
                connection.sendall(b"@token@")
                won.append(address)
    for address in ("@unix@.dgram", "\0@abstract@.dgram"):
        with suppress(OSError):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"@token@", address)
                won.append(address)
    for path in ("/run/docker.sock", "/var/run/dbus/system_bus_socket", "/run/systemd/notify"):
        with suppress(OSError):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                won.append(path)
    return won
