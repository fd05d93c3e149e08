"""What a misconception is, and the words in which the catalogue writes one down."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from properties.mistakes.pipeline import PipelineState, StepOverrides


@dataclass(frozen=True)
class CodeMatcher:
    """What to look for in the code: a kind of place, and what stands there."""

    kind: str
    detail: str = ""
    """a regular expression; anything if empty"""
    last: bool = False
    """of several places, the last"""


@dataclass(frozen=True, eq=False)
class Mistake:
    """One mistake: its name, a sentence for the student, where to look, and what it computes."""

    name: str
    sentence: str
    code_matchers: tuple[CodeMatcher, ...]
    variants: tuple[StepOverrides, ...] = field(repr=False)
    """ways to make it, the usual one first"""
    rare: bool = False
    """not to think of beside another mistake"""
    needs_several_heads: bool = False
    """only where several heads are asked for"""


def define_mistake(
    name: str, sentence: str, code_matchers: str = "", *, rare: bool = False
) -> "MistakeBuilder":
    """A mistake, still without what it computes.

    `fault("late", "It is late.", "softmax:dim=1$ | last reshape")(normalise=…, use=…)` changes two
    steps; several mappings of steps, `(…)({"use": …}, {"hide": …})`, are ways to make it. Where to
    look are kinds of places, each with a pattern for what stands there, the most telling first.
    """
    return MistakeBuilder(
        name, sentence, tuple(map(_parse_matcher, filter(None, code_matchers.split(" | ")))), rare
    )


def _parse_matcher(text: str) -> CodeMatcher:
    kind, _, detail = text.partition(":")
    return CodeMatcher(kind.removeprefix("last "), detail, kind.startswith("last "))


@dataclass(frozen=True)
class MistakeBuilder:
    """A mistake that only lacks what it computes."""

    name: str
    sentence: str
    code_matchers: tuple[CodeMatcher, ...]
    rare: bool

    def __call__(
        self, *ways: StepOverrides, **overrides: Callable[[PipelineState], object]
    ) -> Mistake:
        changes = ((overrides,) if overrides else ()) + ways
        return Mistake(self.name, self.sentence, self.code_matchers, changes, self.rare)


def require_several_heads(group: Sequence[Mistake]) -> tuple[Mistake, ...]:
    """The same mistakes, which need several heads."""
    return tuple(replace(each, needs_several_heads=True) for each in group)
