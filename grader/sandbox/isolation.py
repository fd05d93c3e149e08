"""Isolation levels: how well a machine can confine a submission, and what each level guarantees.

This module can be imported on every platform.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Layer(StrEnum):
    """A layer of confinement."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    SCOPES = "scopes"
    """Landlock's confinement of signals and abstract sockets"""
    SECCOMP = "seccomp"
    RLIMITS = "rlimits"


REQUIRED_LAYERS: Mapping[str, frozenset[Layer]] = MappingProxyType(
    {
        "A": frozenset({Layer.NAMESPACES, Layer.LANDLOCK, Layer.SCOPES, Layer.SECCOMP}),
        "B": frozenset({Layer.LANDLOCK, Layer.SCOPES, Layer.SECCOMP}),
        "B-": frozenset({Layer.LANDLOCK, Layer.SECCOMP}),
    }
)
"""the levels that confine, best first, with the layers that each requires"""
BEST_LEVEL = next(iter(REQUIRED_LAYERS))

_FILES = "reads Python's, torch's and the system's libraries, and no other file"
_COMMON_GUARANTEES = (
    "starts no process, and can signal only itself",
    "opens no socket, and so reaches no network",
    "has limits on time, memory, threads, open files and output, and ends with the grader",
)
GUARANTEES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "A": (
            _FILES,
            "writes only into a small folder, which is deleted when it ends",
            *_COMMON_GUARANTEES,
            "sees no process, network or host name, and only the files that it may read",
        ),
        "B": (_FILES, "writes no file", *_COMMON_GUARANTEES),
        "B-": (
            _FILES,
            "writes no file",
            *_COMMON_GUARANTEES,
            "only one layer, not two, protects signals and sockets",
        ),
        "C": ("has limits on time and memory, which it can evade if it tries",),
        "D": (),
    }
)
"""what each level guarantees about a submission"""

REMEDIES: Mapping[Layer, str] = MappingProxyType(
    {
        Layer.NAMESPACES: (
            "allow unprivileged user namespaces (user.max_user_namespaces, "
            "kernel.apparmor_restrict_unprivileged_userns=0, kernel.unprivileged_userns_clone=1); "
            "containers usually do not, and level B is what to expect there"
        ),
        Layer.LANDLOCK: (
            "needs Linux 6.2 or later with Landlock among the security modules "
            "(boot with lsm=landlock,…), and a container that lets it through"
        ),
        Layer.SCOPES: "needs Linux 6.12 or later",
        Layer.SECCOMP: "needs Linux on x86-64 or aarch64, with seccomp filters",
        Layer.RLIMITS: "needs a POSIX system",
    }
)


@dataclass(frozen=True, slots=True)
class MissingLayer:
    """A layer that this machine lacks, why it lacks it, and how to get it."""

    layer: str
    why: str
    how: str


@dataclass(frozen=True, slots=True)
class IsolationLevel:
    """How well submissions are confined during one run of the grader."""

    name: str
    layers: tuple[str, ...]
    missing: tuple[MissingLayer, ...] = ()

    @property
    def is_confining(self) -> bool:
        """Whether untrusted code may run at this level."""
        return self.name in REQUIRED_LAYERS

    @property
    def guarantees(self) -> tuple[str, ...]:
        """What this level guarantees about every submission."""
        return GUARANTEES[self.name]

    @property
    def summary(self) -> str:
        """The level and its layers in one line."""
        if not self.is_confining:
            how = "submissions were NOT confined, because --trusted was given"
            return f"isolation level {self.name}: {how}"
        return f"isolation level {self.name}: confined by {', '.join(self.layers)}"

    @property
    def refusal(self) -> str:
        """Why untrusted code is refused, and what to do."""
        reasons = "; ".join(f"{each.layer}: {each.why}" for each in self.missing)
        return (
            f"submissions cannot be confined here (isolation level {self.name}; {reasons}); see "
            "`headcheck doctor`, or add --trusted if you trust each of them with this machine"
        )


def determine_isolation_level(problems: Mapping[Layer, str]) -> IsolationLevel:
    """Return the best level that needs none of the missing layers, which map to the reasons."""
    present = [layer for layer in Layer if layer not in problems]
    levels = REQUIRED_LAYERS.items() if Layer.RLIMITS in present else ()
    name = next((name for name, required in levels if required <= set(present)), "C")
    missing = (MissingLayer(layer.value, why, REMEDIES[layer]) for layer, why in problems.items())
    return IsolationLevel(name, tuple(layer.value for layer in present), tuple(missing))


def make_unconfined_level(why: str) -> IsolationLevel:
    """Return the lowest level, D: code runs in the grader process itself."""
    how = "run it on Linux, in a container for instance"
    return IsolationLevel("D", (), (MissingLayer("a process of its own", why, how),))
