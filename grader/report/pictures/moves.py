"""Where numbers go when heads are split or merged: the expected layout and the actual one."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from headcheck.grader.report.pictures.captions import (
    Origin,
    compute_column,
    format_label,
    format_part,
)
from headcheck.grader.report.pictures.colours import CATEGORICAL
from headcheck.grader.report.pictures.svg import (
    FONT_SIZE,
    Box,
    draw_rectangle,
    draw_text,
    join_elements,
    make_drawing,
    make_element,
)
from headcheck.grader.report.records import LayoutEvidence

LEFT, TOP, GAP = 50.0, 46.0, 12.0
WIDTH, HEIGHT = 33.0, 27.0
MAX_BLOCKS = 6
"""the most blocks, rows and columns drawn; a report from elsewhere may have any number"""

Blocks = Sequence[Sequence[Sequence[Origin]]]


def draw_layout(evidence: LayoutEvidence) -> tuple[Markup, ...]:
    """Draw the expected layout of the numbers, and the actual one."""
    expected, got = _truncate(evidence.expected), _truncate(evidence.got)
    return (
        _draw_panel(evidence, "Expected", expected, expected),
        _draw_panel(evidence, "Got", got, expected),
    )


def _truncate(blocks: Blocks) -> Blocks:
    return [[row[: 3 * MAX_BLOCKS] for row in block[:MAX_BLOCKS]] for block in blocks[:MAX_BLOCKS]]


def _draw_panel(evidence: LayoutEvidence, title: str, blocks: Blocks, right: Blocks) -> Markup:
    columns = max((len(row) for block in blocks for row in block), default=0)
    rows = max(map(len, blocks), default=0)
    across = columns * WIDTH + GAP
    parts = [draw_text((0, 7), title, size=13, text_anchor="start", font_weight=600)]
    parts += [
        draw_text((LEFT - 8, TOP + (i + 0.5) * HEIGHT), f"token {i}", text_anchor="end")
        for i in range(rows)
    ]
    for b, block in enumerate(blocks):
        start = LEFT + b * across
        parts += _draw_headings(evidence, b, start, columns)
        for i, row in enumerate(block):
            for j, origin in enumerate(row):
                box = Box(start + j * WIDTH, TOP + i * HEIGHT, WIDTH, HEIGHT)
                wrong = origin != _get_origin(right, b, i, j)
                parts.append(_draw_cell(evidence, box, origin, wrong=wrong))
        parts += _draw_borders(evidence, start, columns, rows)
    return make_drawing(
        LEFT + max(1, len(blocks)) * across,
        TOP + rows * HEIGHT + 4,
        f"{title}: where each of the {evidence.of} lies after the {evidence.step}",
        _describe_panel(evidence, blocks),
        *parts,
    )


def _draw_headings(
    evidence: LayoutEvidence, block: int, start: float, columns: int
) -> Iterator[Markup]:
    """Draw the heading of a block: its head, or after a merge the columns of the output."""
    names = "channel" if evidence.step == "split" else "column"
    above = f"head {block}" if evidence.step == "split" else "" if block == 0 else f"block {block}"
    yield draw_text((start + columns * WIDTH / 2, 22), above or f"{names}s", font_weight=600)
    for i in range(columns):
        yield draw_text((start + (i + 0.5) * WIDTH, TOP - 8), str(i), size=10, opacity=0.8)


def _draw_borders(
    evidence: LayoutEvidence, start: float, columns: int, rows: int
) -> Iterator[Markup]:
    """Draw lines between merged heads."""
    if evidence.step != "merge" or evidence.head_dim < 1:
        return
    for at in range(evidence.head_dim, columns, evidence.head_dim):
        x = start + at * WIDTH
        line = f"M{x:g} {TOP - 4:g}V{TOP + rows * HEIGHT + 4:g}"
        yield make_element("path", d=line, stroke="currentColor")


def _draw_cell(evidence: LayoutEvidence, box: Box, origin: Origin, *, wrong: bool) -> Markup:
    fill = CATEGORICAL[origin[0] % len(CATEGORICAL)] if origin else "#ffffff"
    parts = [draw_rectangle(box, fill=fill, stroke="#777", stroke_width=0.5)]
    if wrong:
        frame = Box(box.x + 1.5, box.y + 1.5, box.width - 3, box.height - 3)
        parts.append(draw_rectangle(frame, fill="none", stroke="#000", stroke_width=2))
    label = format_label(evidence, origin)
    size = min(FONT_SIZE + 1, (box.width - 6) / (0.55 * len(label)))
    weight = 700 if wrong else 400
    parts.append(draw_text(box.middle, label, size=size, fill="#000", font_weight=weight))
    return join_elements(parts)


def _get_origin(blocks: Blocks, block: int, row: int, column: int) -> Origin | None:
    try:
        return blocks[block][row][column]
    except IndexError:
        return None


def _describe_panel(evidence: LayoutEvidence, blocks: Blocks) -> str:
    """Describe every row, for readers who cannot see the figure."""
    rows = []
    for b, block in enumerate(blocks):
        for i, row in enumerate(block):
            where = f"head {b}, token {i}" if evidence.step == "split" else f"token {i}"
            numbers = ", ".join(_describe_number(evidence, origin) for origin in row)
            rows.append(f"{where}: {numbers}")
    return "; ".join(rows) + "."


def _describe_number(evidence: LayoutEvidence, origin: Origin) -> str:
    if not origin:
        return "zero"
    return f"{format_part(origin)}token {origin[0]} column {compute_column(evidence, origin)}"
