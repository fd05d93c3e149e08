"""Listeners on sockets of every kind that a submission could reach, and should not."""

import os
import select
import socket
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Listeners:
    """Sockets that must hear nothing."""

    folder: Path
    open: list[socket.socket] = field(default_factory=list)
    abstract: str = field(default_factory=lambda: f"headcheck-{os.urandom(6).hex()}")

    def __post_init__(self) -> None:
        tcp, unix = self._bind(socket.AF_INET), self._bind(socket.AF_UNIX, f"{self.folder}/unix")
        named = self._bind(socket.AF_UNIX, f"\0{self.abstract}")
        for each in (tcp, unix, named):
            each.listen()
        udp = self._bind(socket.AF_INET, kind=socket.SOCK_DGRAM)
        self._bind(socket.AF_UNIX, f"{self.folder}/unix.dgram", socket.SOCK_DGRAM)
        self._bind(socket.AF_UNIX, f"\0{self.abstract}.dgram", socket.SOCK_DGRAM)
        for path in ("unix", "unix.dgram"):
            (self.folder / path).chmod(0o777)
        self.placeholders = {
            "@tcp@": str(tcp.getsockname()[1]),
            "@udp@": str(udp.getsockname()[1]),
            "@unix@": f"{self.folder}/unix",
            "@abstract@": self.abstract,
        }

    def _bind(
        self, family: int, address: str = "", kind: int = socket.SOCK_STREAM
    ) -> socket.socket:
        made = socket.socket(family, kind)
        made.bind(("127.0.0.1", 0) if family == socket.AF_INET else address)
        self.open.append(made)
        return made

    def collect_contacts(self) -> list[str]:
        """Who was spoken to; what was said is thrown away."""
        names = []
        while ready := select.select(self.open, [], [], 0)[0]:
            for each in ready:
                names.append(f"{each.getsockname()!r} was spoken to")
                if each.type == socket.SOCK_STREAM:
                    each.accept()[0].close()
                else:
                    each.recv(4096)
        return names

    def close(self) -> None:
        for each in self.open:
            each.close()
