"""Connects to unix sockets, by path, by abstract name, and with datagrams."""

import functools
import socket


@functools.cache
def attack():
    won = []
    for address in ("@unix@", "\0@abstract@"):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(address)
                connection.sendall(b"@token@")
                won.append(address)
        except OSError:
            pass
    for address in ("@unix@.dgram", "\0@abstract@.dgram"):
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"@token@", address)
                won.append(address)
        except OSError:
            pass
    for path in ("/run/docker.sock", "/var/run/dbus/system_bus_socket", "/run/systemd/notify"):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                won.append(path)
        except OSError:
            pass
    return won
