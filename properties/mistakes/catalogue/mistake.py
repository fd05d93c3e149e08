"""What a misconception is, and the words in which the catalogue writes one down."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from properties.mistakes.pipeline import Change, Steps


@dataclass(frozen=True)
class Look:
    """What to look for in the code: a kind of place, and what stands there."""

    kind: str
    detail: str = ""
    """a regular expression; anything if empty"""
    last: bool = False
    """of several places, the last"""


@dataclass(frozen=True, eq=False)
class Misconception:
    """One mistake: its name, a sentence for the student, where to look, and what it computes."""

    name: str
    sentence: str
    look_for: tuple[Look, ...]
    changes: tuple[Change, ...] = field(repr=False)
    """ways to make it, the usual one first"""
    rare: bool = False
    """not to think of beside another mistake"""
    of_heads: bool = False
    """only where several heads are asked for"""


def fault(name: str, sentence: str, look_for: str = "", *, rare: bool = False) -> "Named":
    """A mistake, still without what it computes.

    `fault("late", "It is late.", "softmax:dim=1$ | last reshape")(normalise=…, use=…)` changes two
    steps; several mappings of steps, `(…)({"use": …}, {"hide": …})`, are ways to make it. Where to
    look are kinds of places, each with a pattern for what stands there, the most telling first.
    """
    return Named(name, sentence, tuple(map(_look, filter(None, look_for.split(" | ")))), rare)


def _look(text: str) -> Look:
    kind, _, detail = text.partition(":")
    return Look(kind.removeprefix("last "), detail, kind.startswith("last "))


@dataclass(frozen=True)
class Named:
    """A mistake that only lacks what it computes."""

    name: str
    sentence: str
    look_for: tuple[Look, ...]
    rare: bool

    def __call__(self, *ways: Change, **change: Callable[[Steps], object]) -> Misconception:
        changes = ((change,) if change else ()) + ways
        return Misconception(self.name, self.sentence, self.look_for, changes, self.rare)


def of_heads(group: Sequence[Misconception]) -> tuple[Misconception, ...]:
    """The same mistakes, which need several heads."""
    return tuple(replace(each, of_heads=True) for each in group)
