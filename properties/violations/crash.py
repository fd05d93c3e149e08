"""Describe a crash: its cause, and the shapes that are involved, with the names of their axes.

The sentence and its particulars come from the submission's process, and the sizes of the call from
ours. An axis gets the name of a size only if its length equals no other size of the call and no
usual product of sizes, and if such an axis can be in that place.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Piece = str | tuple[int, ...]
"""a part of a sentence: text, or a shape"""
WHOLE = frozenset({"heads", "head_dim"})
"""the two sizes whose product may also be the length of an axis"""
COUNTS = ("batch", "heads", "kv_heads")
"""sizes of axes that come before the tokens"""


@dataclass(frozen=True, slots=True)
class CallSizes:
    """The sizes of one call by our names, and the exercise's names where they differ."""

    names: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    text: str = ""
    """the input in words"""
    in_case: bool = True
    """whether this is the case's own input rather than an input of another size"""

    def name_shape(self, shape: tuple[int, ...]) -> str:
        """Write a shape, with names for axes that are unambiguous: (batch=2, tokens=3, 5)."""
        found = [self._find_size(length) for length in shape]
        is_square = len(shape) > 1 and shape[-1] == shape[-2]
        axes = (
            f"{self.names.get(name, name)}={length}"
            if name is not None and self._belongs(name, place, found, is_square=is_square)
            else str(length)
            for place, (name, length) in enumerate(zip(found, shape, strict=True))
        )
        return f"({', '.join(axes)}{',' * (len(shape) == 1)})"

    def _find_size(self, length: int) -> str | None:
        """Return the size that equals the length of an axis; None unless exactly one does."""
        found = [name for name, size in self.sizes.items() if size == length]
        if length < 2 or len(found) != 1 or length in self._iter_compounds():
            return None
        return found[0]

    def _belongs(
        self, name: str, place: int, found: Sequence[str | None], *, is_square: bool
    ) -> bool:
        """Whether a size's axis can be in this place; if not, the equal length is a coincidence."""
        axes = len(found)
        if name in COUNTS:
            first_is_batch = name != "batch" and "batch" in self.sizes
            return axes > 2 + first_is_batch and found.count(name) == 1 and place >= first_is_batch
        if is_square and place >= axes - 2:
            return name in ("tokens", "context_length")
        return True

    def _iter_compounds(self) -> Iterator[int]:
        """Yield the lengths of axes that combine several sizes, or that are a part of a size."""
        for (one, size), (other, by) in itertools.combinations(self.sizes.items(), 2):
            if {one, other} != WHOLE and min(size, by) > 1:
                yield size * by
        yield from (3 * size for name, size in self.sizes.items() if name in ("d_in", "d_out"))
        if (kv_heads := self.sizes.get("kv_heads")) is not None:
            yield self.sizes["heads"] // kv_heads
        if (turned := self.sizes.get("rope_dim")) is not None:
            yield from (self.sizes[name] + turned for name in ("head_dim", "d_latent"))
        if (tokens := self.sizes.get("tokens")) is not None:
            yield tokens % self.sizes.get("block", tokens)
            yield from {tokens - 1, tokens + 1} - {self.sizes.get("context_length")}


NO_SIZES = CallSizes()


@dataclass(frozen=True, slots=True)
class Crash:
    """The cause of a crash: a sentence of a catalogue, and the particulars of this crash."""

    sentence: str
    """the sentence, the same for all submissions and cases"""
    details: tuple[Piece, ...] = ()
    """the particulars, which may quote the submission"""
    sizes: CallSizes = NO_SIZES

    def __str__(self) -> str:
        parts = (p if isinstance(p, str) else self.sizes.name_shape(p) for p in self.details)
        said = f"{self.sentence}: {''.join(parts)}" if self.details else self.sentence
        ended = said if said.endswith("?") else f"{said}."
        has_shapes = any(isinstance(piece, tuple) for piece in self.details)
        who = "The input" if self.sizes.in_case else "The input of this call, not that of the case"
        return f"{ended} {who}: {self.sizes.text}." if has_shapes and self.sizes.text else ended
