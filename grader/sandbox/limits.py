"""The resource limits of a submission."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

SINGLE_THREAD_ENV: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
    )
)
"""environment variables that keep libraries from starting their own threads"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits in seconds and bytes for one file: all its definitions and all its processes.

    A limit for one call or one process says so. Seconds count only while the submission itself
    computes or sleeps, not while it waits for other processes to free the processor.
    """

    call_s: float = 10.0
    """seconds of one call"""
    endless_calls: int = 3
    """how many calls may use up their time before no more are made"""
    idle_s: float = 15.0
    """seconds in which the file's code sleeps, that is, neither computes nor waits for a processor
    """
    read_s: float = 60.0
    """seconds of reading the file, which every process does once"""
    import_s: float = 60.0
    """seconds of importing modules; one module may take a third of them"""
    total_s: float = 120.0
    """seconds of all other requests"""
    cpu_s: int = 60
    memory: int | None = 2 << 30
    """address space of one process beyond that of the interpreter and torch; None means no limit"""
    threads: int = 16
    open_files: int = 64
    scratch: int = 16 << 20
    """total size of the files that one process may write, if it can write files at all"""
    source: int = 20 << 20
    """size of the submitted file"""
    reply: int = 64 << 20
    """size of the reply to one call"""
    replies: int = 1 << 30
    """size of all replies together"""

    def with_overrides(self, overrides: Mapping[str, float | None]) -> "Limits":
        """Return a copy with some fields changed. Raises TypeError for an unknown name."""
        return replace(self, **overrides)  # type: ignore[arg-type]  # names are checked by replace
