"""Opens sockets of families that reach the kernel, the hypervisor or the wire."""

import socket

FAMILIES = {
    "AF_NETLINK": 16,
    "AF_VSOCK": 40,
    "AF_PACKET": 17,
    "AF_ALG": 38,
    "AF_BLUETOOTH": 31,
    "AF_CAN": 29,
    "AF_TIPC": 30,
    "AF_XDP": 44,
    "AF_QIPCRTR": 42,
    "AF_RDS": 21,
    "AF_KCM": 41,
    "AF_UNIX": 1,
    "AF_INET": 2,
    "AF_INET6": 10,
}


def attack_once():
    won = []
    for name, family in FAMILIES.items():
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            with suppress(OSError):
                socket.socket(family, kind, 0).close()
                won.append((name, int(kind)))
    return won
