"""How well this machine can confine a submission: one of five rungs, and what each of them holds.

Importing this works everywhere.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Layer(StrEnum):
    """One of the means of confinement."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    SCOPES = "scopes"
    """Landlock's confinement of signals and abstract sockets"""
    SECCOMP = "seccomp"
    RLIMITS = "rlimits"


NEEDED: Mapping[str, frozenset[Layer]] = MappingProxyType(
    {
        "A": frozenset({Layer.NAMESPACES, Layer.LANDLOCK, Layer.SCOPES, Layer.SECCOMP}),
        "B": frozenset({Layer.LANDLOCK, Layer.SCOPES, Layer.SECCOMP}),
        "B-": frozenset({Layer.LANDLOCK, Layer.SECCOMP}),
    }
)
"""the rungs that confine, the best first, and the layers that each of them needs"""

_FILES = "reads Python's, torch's and the system's libraries, and no other file"
_ALIKE = (
    "starts no process, and signals none but itself",
    "opens no socket, and so reaches no network",
    "is bounded in time, memory, threads, open files and output, and ends with the examiner",
)
HOLDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "A": (
            _FILES,
            "writes nowhere but into a small folder of its own, which ends with it",
            *_ALIKE,
            "sees no process, network or host name, and no files but those that it reads",
        ),
        "B": (_FILES, "writes no file", *_ALIKE),
        "B-": (_FILES, "writes no file", *_ALIKE, "signals and sockets have one lock, not two"),
        "C": ("is bounded in time and memory, as long as it does not try to get around that",),
        "D": (),
    }
)
"""what is so of a submission on each rung"""

HELP: Mapping[Layer, str] = MappingProxyType(
    {
        Layer.NAMESPACES: (
            "allow unprivileged user namespaces (user.max_user_namespaces, "
            "kernel.apparmor_restrict_unprivileged_userns=0, kernel.unprivileged_userns_clone=1); "
            "containers usually do not, and rung B is what to expect there"
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
class Missing:
    """A layer that is not there, why, and how to get it."""

    layer: str
    why: str
    how: str


@dataclass(frozen=True, slots=True)
class Rung:
    """How well submissions are confined in one run."""

    name: str
    layers: tuple[str, ...]
    missing: tuple[Missing, ...] = ()

    @property
    def confines(self) -> bool:
        """Whether code of strangers may run here."""
        return self.name in NEEDED

    @property
    def holds(self) -> tuple[str, ...]:
        """What is so of a submission."""
        return HOLDS[self.name]

    @property
    def summary(self) -> str:
        """The rung and its layers in one line."""
        if not self.confines:
            return f"rung {self.name}: submissions were NOT confined, and trusted by --trusted"
        return f"rung {self.name}: confined by {', '.join(self.layers)}"

    @property
    def refusal(self) -> str:
        """Why untrusted code does not run here, and what to do."""
        reasons = "; ".join(f"{each.layer}: {each.why}" for each in self.missing)
        return (
            f"submissions cannot be confined here (rung {self.name}; {reasons}); see "
            "`headcheck doctor`, or add --trusted if you trust each of them with this machine"
        )


def rung_of(problems: Mapping[Layer, str]) -> Rung:
    """The rung that is left where these layers are missing, for these reasons."""
    there = [layer for layer in Layer if layer not in problems]
    missing = tuple(Missing(layer.value, why, HELP[layer]) for layer, why in problems.items())
    return Rung(_name(there), tuple(layer.value for layer in there), missing)


def _name(there: Collection[Layer]) -> str:
    if Layer.RLIMITS not in there:
        return "C"
    return next((name for name, needed in NEEDED.items() if needed <= set(there)), "C")


def nothing(why: str) -> Rung:
    """The last rung, D: code runs in the examiner's own process."""
    how = "run it on Linux, in a container for instance"
    return Rung("D", (), (Missing("a process of its own", why, how),))
