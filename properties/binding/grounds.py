"""What an accusation of a class without an exercise rests on: the only ways in which it can fail.

A class fails only if its behaviour contradicts what it says itself, what holds for all attention,
or the one contract that its right calls leave open. Every record names its grounds in notes, whose
sentences stand here. What headcheck invents (sizes, shapes, what an argument means) is no ground.
"""

from dataclasses import dataclass
from enum import Enum


class Basis(Enum):
    """What a class contradicts if it fails."""

    SAID = "what it says itself"
    ALL = "what holds for all attention"
    CONTRACT = "the one contract that its right calls leave open"


@dataclass(frozen=True, slots=True)
class Ground:
    """One way in which a class can fail, with the sentence that a report says of it."""

    basis: Basis
    when: str
    """what fails, as a sentence for the documentation"""
    sentence: str
    """what a note says, with `{}` for what is found"""
    points: str = "those of the checks"
    statuses: str = "failed"

    def say(self, *found: str) -> str:
        """Return the sentence of a note."""
        return self.sentence.format(*found)


ALL_OR_SHARES = "10, in shares"
COMPUTES = Ground(
    Basis.CONTRACT,
    "It computes this at some sizes, or this with one known mistake, and a check of it fails.",
    "recognised by what it computes: {}",
    statuses="failed, crashed",
)
FLOWS = Ground(
    Basis.CONTRACT,
    "Every weight and every operation has a role in this alone, and it computes something else.",
    "read as {}: nothing else fits its weights and what it does with them",
    statuses="failed, crashed",
)
RAISES = Ground(
    Basis.ALL,
    "Names say what each argument is, and every call raises one error without a number of its own.",
    "read as {} by its names: every call of it in float64 raises",
    statuses="crashed",
)
LATER = Ground(
    Basis.SAID,
    "It shows later tokens.",
    "later tokens should be hidden, as the class says: “{}”",
)
POLARITY = Ground(
    Basis.SAID,
    "Its mask means the opposite.",
    "what its mask means is what the class says of it: “{}”",
)
NUMBERS = Ground(
    Basis.SAID,
    "It misreads a mask of ones and zeros.",
    "its mask has numbers, as the class says: “{}”",
)
SIDES = Ground(
    Basis.SAID,
    "The other side's tokens attend.",
    "the tokens of `{}` should attend to those of `{}`, as its arguments are named",
)
SHARING = Ground(
    Basis.ALL,
    "Heads take shared keys in turn.",
    "neighbouring heads should share keys and values, as in published models and in torch, so that "
    "their weights fit",
)
WIDTHS = Ground(
    Basis.SAID,
    "It has an argument for each width of input and output, and works only where these are equal.",
    "it has an argument for each width, and is judged at widths that differ",
    statuses="failed, crashed",
)
WINDOW = Ground(
    Basis.SAID,
    "Its window is longer.",
    "its window counts the token itself, as the class says: “{}”",
)
MASKS = Ground(
    Basis.SAID,
    "One of its masks is not followed.",
    "its masks are judged one at a time: {} by itself, too",
    statuses="failed, crashed",
)
AROUND = Ground(
    Basis.ALL,
    "A layer around attention breaks what holds for every layer.",
    "judged as a layer around {}, by what holds for every layer",
    ALL_OR_SHARES,
)
BLOCK = Ground(
    Basis.ALL,
    "A block that computes right attention breaks it around this.",
    "judged as a layer, too: what stands around its attention is wrong",
    ALL_OR_SHARES,
)
UNKNOWN = Ground(
    Basis.ALL,
    "Attention that is not recognised breaks it.",
    "its attention is not recognised: judged by what holds for every layer",
    ALL_OR_SHARES,
)
KIND = Ground(
    Basis.ALL,
    "Attention of a kind without an equation breaks it.",
    "{}: judged by what holds for every layer, not by its equation",
    ALL_OR_SHARES,
)
GROUNDS = (
    COMPUTES, FLOWS, RAISES, LATER, POLARITY, NUMBERS, SIDES, SHARING,
    WIDTHS, WINDOW, MASKS, AROUND, BLOCK, UNKNOWN, KIND,
)  # fmt: skip


def write_table() -> str:
    """Return the table of all grounds for the documentation: a row for each basis and status."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for ground in GROUNDS:
        rows.setdefault((ground.basis.value, ground.statuses, ground.points), []).append(
            ground.when
        )
    head = "| it contradicts | how | status | points |\n|---|---|---|---|"
    lines = (f"| {basis} | {' '.join(w)} | {s} | {p} |" for (basis, s, p), w in rows.items())
    return "\n".join((head, *lines))
