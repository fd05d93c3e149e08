"""How much a submission may use."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

SINGLE_THREAD_ENV: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
    )
)
"""environment in which no library starts threads of its own"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one file, with all its definitions and all processes started for it.

    Some are of one call or one process, and say so. Seconds and bytes.
    """

    call_s: float = 10.0
    """wall time of one call"""
    slow_s: float = 1.0
    """time of one call beyond which it is slow; waiting for a processor does not count"""
    slow_calls: int = 3
    """so many slow calls, and no more are made"""
    idle_s: float = 15.0
    """time in which the file's code neither computes nor waits for a processor: it sleeps"""
    read_s: float = 60.0
    """wall time of reading the file; it is read once for each process"""
    wall_s: float = 120.0
    """waiting for all other replies; the examiner's own time does not count"""
    cpu_s: int = 60
    memory: int | None = 2 << 30
    """of one process: address space beyond what the interpreter and torch map; None is no limit"""
    threads: int = 16
    open_files: int = 64
    scratch: int = 16 << 20
    """of one process: files written, all together, where they can be written at all"""
    source: int = 20 << 20
    """size of the file handed in"""
    reply: int = 64 << 20
    """size of the reply to one call"""
    replies: int = 1 << 30
    """size of all replies together"""

    def with_overrides(self, changed: Mapping[str, float | None]) -> "Limits":
        """The same with some fields changed. Raises TypeError for a name that is none of them."""
        return replace(self, **changed)  # type: ignore[arg-type]  # names are checked by replace
