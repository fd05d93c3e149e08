"""Matrices as grids of cells: attention weights, and which outputs moved."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from grader.report.pictures.colours import UNKNOWN, diverging, ink, sequential
from grader.report.pictures.numbers import cell, listed
from grader.report.pictures.svg import (
    SMALL,
    Box,
    drawing,
    element,
    hatching,
    joined,
    rectangle,
    text,
    upright,
)
from grader.report.records import InfluenceEvidence, Marks, WeightsEvidence

LEFT, TOP, BELOW = 34.0, 40.0, 34.0
SIDE = 176.0
"""how long the side of a matrix is, at least and if cells are not too small then"""
SMALLEST, LARGEST = 36.0, 48.0
MOVED, LEAK, PAPER = "#7fa8d9", "#f2b27a", "#fbfaf7"
Row = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows and columns with their labels, and where each cell is."""

    rows: Sequence[int]
    columns: Sequence[int]

    @property
    def side(self) -> float:
        """The width of a cell."""
        many = max(len(self.rows), len(self.columns), 1)
        return min(max(SIDE / many, SMALLEST), LARGEST)

    @property
    def width(self) -> float:
        return LEFT + max(len(self.columns) * self.side, 3 * SMALLEST) + 2

    @property
    def height(self) -> float:
        return TOP + len(self.rows) * self.side

    def box(self, row: int, column: int) -> Box:
        return Box(LEFT + column * self.side, TOP + row * self.side, self.side, self.side)

    def labels(self, title: str, across: str, down: str) -> Iterator[Markup]:
        """The title above, what rows and columns are, and the number of each."""
        middle = LEFT + len(self.columns) * self.side / 2
        yield text((LEFT, 7), title, size=13, text_anchor="start", font_weight=600)
        yield text((middle, 21), across, opacity=0.8)
        yield upright((8, TOP + len(self.rows) * self.side / 2), down)
        for i, number in enumerate(self.columns):
            yield text((self.box(0, i).middle[0], TOP - 7), str(number))
        for i, number in enumerate(self.rows):
            yield text((LEFT - 10, self.box(i, 0).middle[1]), str(number))


# ------------------------------------------------------------------------------------- weights


def weights(seen: WeightsEvidence) -> tuple[Markup, ...]:
    """Expected, got, and what the difference is."""
    off = tuple(
        tuple(None if g is None or e is None else g - e for e, g in zip(right, got, strict=True))
        for right, got in zip(seen.expected, seen.got, strict=True)
    )
    most = max((abs(v) for row in off for v in row if v is not None), default=0.0) or 1.0
    return (
        _weights(seen, "Expected", seen.expected, sequential, (0, 1)),
        _weights(seen, "Got", seen.got, sequential, (0, 1)),
        _weights(seen, "Difference", off, lambda v: diverging(v / most), (-most, most)),
    )


def _weights(
    seen: WeightsEvidence,
    title: str,
    matrix: Sequence[Row],
    colour: Callable[[float], str],
    ends: tuple[float, float],
) -> Markup:
    grid = Grid(seen.queries, seen.keys)
    signed = ends[0] < 0
    cells = [
        _number(grid.box(i, j), value, colour, may=seen.may_attend[i][j], signed=signed)
        for i, row in enumerate(matrix)
        for j, value in enumerate(row)
    ]
    words = "; ".join(
        f"token {query}: {listed(row)}" for query, row in zip(seen.queries, matrix, strict=True)
    )
    return drawing(
        grid.width,
        grid.height + BELOW,
        f"{title}: attention weights, a row for each token",
        f"{words}. {_hidden_words(seen.queries, seen.keys, seen.may_attend)}",
        *grid.labels(title, "attended to", "attending"),
        *cells,
        _scale(grid, colour, ends),
    )


def _number(
    box: Box, value: float | None, colour: Callable[[float], str], *, may: bool, signed: bool
) -> Markup:
    fill = UNKNOWN if value is None else colour(value)
    parts = [rectangle(box, fill=fill)]
    if not may:
        parts.append(hatching(box, ink(fill)))
    # A halo keeps the number readable where the cell is hatched.
    halo = {} if may else {"stroke": fill, "stroke_width": 4, "paint_order": "stroke"}
    said = cell(value, signed=signed)
    parts.append(text(box.middle, said, size=_fitting(said, box), fill=ink(fill), **halo))
    return joined(parts)


def _fitting(said: str, box: Box) -> float:
    """The size at which a number fits into its cell, a digit being as wide as 0.6 of its size."""
    return min(SMALL + 1, (box.width - 3) / (0.6 * len(said)))


def _scale(grid: Grid, colour: Callable[[float], str], ends: tuple[float, float]) -> Markup:
    """What the colours mean."""
    low, high = ends
    steps, y = 24, grid.height + 10
    width = len(grid.columns) * grid.side / steps
    parts = [
        rectangle(
            Box(LEFT + i * width, y, width + 0.3, 8),
            fill=colour(low * (1 - i / (steps - 1)) + high * (i / (steps - 1))),
        )
        for i in range(steps)
    ]
    for at, value in ((LEFT, low), (LEFT + steps * width, high)):
        anchor = "start" if value == low else "end"
        parts.append(text((at, y + 16), cell(value, signed=low < 0), text_anchor=anchor, size=10))
    return joined(parts)


def _hidden_words(rows: Sequence[int], columns: Sequence[int], may: Marks) -> str:
    hidden = [
        f"{row} from {column}"
        for row, allowed in zip(rows, may, strict=True)
        for column, seen in zip(columns, allowed, strict=True)
        if not seen
    ]
    return f"Hidden (attending from attended to): {', '.join(hidden)}." if hidden else ""


# ----------------------------------------------------------------------------------- influence


def influence(seen: InfluenceEvidence) -> tuple[Markup, ...]:
    """Which outputs should move when a token changes, and which did."""
    return (
        _moves(seen, "Should move", seen.expected),
        _moves(seen, "Moved", seen.got),
    )


def _moves(seen: InfluenceEvidence, title: str, moved: Marks) -> Markup:
    grid = Grid(seen.tokens, seen.tokens)
    cells = [
        _move(grid.box(i, j), moves, may=seen.may[i][j], right=seen.expected[i][j])
        for i, row in enumerate(moved)
        for j, moves in enumerate(row)
    ]
    words = "; ".join(
        f"a change of token {token} moves outputs {_outputs(seen.tokens, moved, j)}"
        for j, token in enumerate(seen.tokens)
    )
    return drawing(
        grid.width,
        grid.height + 4,
        f"{title}: which outputs move when a token changes",
        f"{words}.",
        *grid.labels(title, "token changed", "output"),
        *cells,
    )


def _outputs(tokens: Sequence[int], moved: Marks, column: int) -> str:
    found = [str(token) for token, row in zip(tokens, moved, strict=True) if row[column]]
    return ", ".join(found) or "none"


def _move(box: Box, moves: bool, *, may: bool, right: bool) -> Markup:
    """A dot where an output moves; what is wrong has a frame and a cross beside the colour."""
    wrong = (moves and not may) or (right and not moves)
    parts = [rectangle(box, fill=LEAK if wrong else MOVED if moves else PAPER)]
    if not may:
        parts.append(hatching(box, "#000"))
    x, y = box.middle
    if moves:
        parts.append(element("circle", cx=x, cy=y, r=box.width / 6, fill="#000"))
    if wrong:
        frame = Box(box.x + 1.5, box.y + 1.5, box.width - 3, box.height - 3)
        parts.append(rectangle(frame, fill="none", stroke="#000", stroke_width=2.5))
        corner = (box.x + box.width - 9, box.y + 10)
        parts.append(text(corner, "✗", fill="#000", font_weight=700, size=12))
    return joined(parts)
