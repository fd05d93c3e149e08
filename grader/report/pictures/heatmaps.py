"""Matrices as grids of cells: attention weights, and which outputs moved."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headcheck.grader.report.pictures.colours import (
    NAN_COLOUR,
    choose_text_colour,
    diverging,
    sequential,
)
from headcheck.grader.report.pictures.numbers import format_number, format_row
from headcheck.grader.report.pictures.svg import (
    FONT_SIZE,
    Box,
    draw_hatching,
    draw_rectangle,
    draw_text,
    draw_vertical_text,
    join_elements,
    make_drawing,
    make_element,
)
from headcheck.grader.report.records import BoolMatrix, InfluenceEvidence, WeightsEvidence

LEFT, TOP, BELOW = 34.0, 40.0, 34.0
SIDE = 176.0
"""the side of a matrix, unless its cells would become smaller or larger than allowed"""
SMALLEST, LARGEST = 36.0, 48.0
MOVED_COLOUR, LEAK_COLOUR, PAPER_COLOUR = "#7fa8d9", "#f2b27a", "#fbfaf7"
MatrixRow = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows and columns with their labels, and the position of each cell."""

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

    def get_box(self, row: int, column: int) -> Box:
        return Box(LEFT + column * self.side, TOP + row * self.side, self.side, self.side)

    def draw_labels(self, title: str, across: str, down: str) -> Iterator[Markup]:
        """Draw the title, the names of the axes, and the number of each row and column."""
        middle = LEFT + len(self.columns) * self.side / 2
        yield draw_text((LEFT, 7), title, size=13, text_anchor="start", font_weight=600)
        yield draw_text((middle, 21), across, opacity=0.8)
        yield draw_vertical_text((8, TOP + len(self.rows) * self.side / 2), down)
        for i, number in enumerate(self.columns):
            yield draw_text((self.get_box(0, i).middle[0], TOP - 7), str(number))
        for i, number in enumerate(self.rows):
            yield draw_text((LEFT - 10, self.get_box(i, 0).middle[1]), str(number))


Ends = tuple[Callable[[float], str], tuple[float, float]]
"""a scale of colours: the colour of a number, and the numbers at the ends"""

# ------------------------------------------------------------------------------------- weights


def draw_weights(evidence: WeightsEvidence) -> tuple[Markup, ...]:
    """Draw the expected weights, the actual ones, and their difference."""
    off = tuple(
        tuple(None if g is None or e is None else g - e for e, g in zip(right, got, strict=True))
        for right, got in zip(evidence.expected, evidence.got, strict=True)
    )
    most = max((abs(v) for row in off for v in row if v is not None), default=0.0) or 1.0
    difference: Ends = lambda v: diverging(v / most), (-most, most)
    whole: Ends = sequential, (0, 1)
    return (
        _draw_matrix(evidence, "Expected", evidence.expected, whole),
        _draw_matrix(evidence, "Got", evidence.got, whole),
        _draw_matrix(evidence, "Difference", off, difference),
    )


def _draw_matrix(
    evidence: WeightsEvidence, title: str, matrix: Sequence[MatrixRow], scale: Ends
) -> Markup:
    colour, ends = scale
    grid = Grid(evidence.queries, evidence.keys)
    signed = ends[0] < 0
    may = evidence.may_attend
    cells = [
        _draw_number(grid.get_box(i, j), value, colour, may=may[i][j], signed=signed)
        for i, row in enumerate(matrix)
        for j, value in enumerate(row)
    ]
    rows = zip(evidence.queries, matrix, strict=True)
    words = "; ".join(f"token {query}: {format_row(row)}" for query, row in rows)
    return make_drawing(
        grid.width,
        grid.height + BELOW,
        f"{title}: attention weights, a row for each token",
        f"{words}. {_describe_hidden(evidence.queries, evidence.keys, may)}",
        *grid.draw_labels(title, "attended to", "attending"),
        *cells,
        _draw_colour_bar(grid, colour, ends),
    )


def _draw_number(
    box: Box, value: float | None, colour: Callable[[float], str], *, may: bool, signed: bool
) -> Markup:
    fill = NAN_COLOUR if value is None else colour(value)
    parts = [draw_rectangle(box, fill=fill)]
    if not may:
        parts.append(draw_hatching(box, choose_text_colour(fill)))
    # A halo keeps the number readable where the cell is hatched.
    halo = {} if may else {"stroke": fill, "stroke_width": 4, "paint_order": "stroke"}
    label = format_number(value, signed=signed)
    # A digit is about 0.6 times as wide as its font size.
    size = min(FONT_SIZE + 1, (box.width - 3) / (0.6 * len(label)))
    parts.append(draw_text(box.middle, label, size=size, fill=choose_text_colour(fill), **halo))
    return join_elements(parts)


def _draw_colour_bar(
    grid: Grid, colour: Callable[[float], str], ends: tuple[float, float]
) -> Markup:
    """Draw the scale of the colours, with the numbers at its ends."""
    low, high = ends
    steps, y = 24, grid.height + 10
    width = len(grid.columns) * grid.side / steps
    parts = [
        draw_rectangle(
            Box(LEFT + i * width, y, width + 0.3, 8),
            fill=colour(low * (1 - i / (steps - 1)) + high * (i / (steps - 1))),
        )
        for i in range(steps)
    ]
    for at, value in ((LEFT, low), (LEFT + steps * width, high)):
        anchor = "start" if value == low else "end"
        label = format_number(value, signed=low < 0)
        parts.append(draw_text((at, y + 16), label, text_anchor=anchor, size=10))
    return join_elements(parts)


def _describe_hidden(rows: Sequence[int], columns: Sequence[int], may: BoolMatrix) -> str:
    hidden = [
        f"{row} from {column}"
        for row, cells in zip(rows, may, strict=True)
        for column, visible in zip(columns, cells, strict=True)
        if not visible
    ]
    return f"Hidden (attending from attended to): {', '.join(hidden)}." if hidden else ""


# ----------------------------------------------------------------------------------- influence


def draw_influence(evidence: InfluenceEvidence) -> tuple[Markup, ...]:
    """Draw which outputs should move when a token changes, and which did."""
    return (
        _draw_moves(evidence, "Should move", evidence.expected),
        _draw_moves(evidence, "Moved", evidence.got),
    )


def _draw_moves(evidence: InfluenceEvidence, title: str, moved: BoolMatrix) -> Markup:
    grid = Grid(evidence.tokens, evidence.tokens)
    cells = [
        _draw_move(grid.get_box(i, j), moves, may=evidence.may[i][j], right=evidence.expected[i][j])
        for i, row in enumerate(moved)
        for j, moves in enumerate(row)
    ]
    words = "; ".join(
        f"a change of token {token} moves outputs {_list_outputs(evidence.tokens, moved, j)}"
        for j, token in enumerate(evidence.tokens)
    )
    return make_drawing(
        grid.width,
        grid.height + 4,
        f"{title}: which outputs move when a token changes",
        f"{words}.",
        *grid.draw_labels(title, "token changed", "output"),
        *cells,
    )


def _list_outputs(tokens: Sequence[int], moved: BoolMatrix, column: int) -> str:
    outputs = [str(token) for token, row in zip(tokens, moved, strict=True) if row[column]]
    return ", ".join(outputs) or "none"


def _draw_move(box: Box, moves: bool, *, may: bool, right: bool) -> Markup:
    """Draw a dot if an output moves, and a frame and a cross if that is wrong."""
    wrong = (moves and not may) or (right and not moves)
    parts = [
        draw_rectangle(box, fill=LEAK_COLOUR if wrong else MOVED_COLOUR if moves else PAPER_COLOUR)
    ]
    if not may:
        parts.append(draw_hatching(box, "#000"))
    x, y = box.middle
    if moves:
        parts.append(make_element("circle", cx=x, cy=y, r=box.width / 6, fill="#000"))
    if wrong:
        frame = Box(box.x + 1.5, box.y + 1.5, box.width - 3, box.height - 3)
        parts.append(draw_rectangle(frame, fill="none", stroke="#000", stroke_width=2.5))
        corner = (box.x + box.width - 9, box.y + 10)
        parts.append(draw_text(corner, "✗", fill="#000", font_weight=700, size=12))
    return join_elements(parts)
