"""How much a submission may use."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

ONE_THREAD: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
    )
)
"""environment in which no library starts threads of its own"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Per submission, unless a field says per call. Seconds and bytes."""

    call_s: float = 10.0
    """wall time of one call"""
    wall_s: float = 120.0
    """waiting for all replies; the examiner's own time does not count"""
    cpu_s: int = 60
    memory: int | None = 2 << 30
    """address space beyond what the interpreter and torch map anyway; None is no limit"""
    threads: int = 16
    open_files: int = 64
    scratch: int = 16 << 20
    """files written, all together, where they can be written at all"""
    source: int = 20 << 20
    """size of the file handed in"""
    reply: int = 256 << 20
    """size of the reply to one call"""
    replies: int = 8 << 30
    """size of all replies together"""

    def but(self, changed: Mapping[str, float | None]) -> "Limits":
        """The same with some fields changed. Raises TypeError for a name that is none of them."""
        return replace(self, **changed)  # type: ignore[arg-type]  # names are checked by replace
