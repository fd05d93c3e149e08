"""How much a submission may use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Per submission, unless a field says per call. Seconds and bytes."""

    call_s: float = 10.0
    """wall time of one call"""
    wall_s: float = 120.0
    cpu_s: int = 60
    memory: int | None = 2 << 30
    """address space beyond what the interpreter and torch map anyway; None is no limit"""
    source: int = 20 << 20
    """size of the file handed in"""
    reply: int = 256 << 20
    """size of one reply"""
