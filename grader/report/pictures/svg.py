"""SVG elements as text: their content is escaped, and they need no style sheet.

No element has an id, so that a page can hold any number of drawings. Everything that is not on a
coloured cell is drawn in currentColor, so that it follows the theme of the page.
"""

from collections.abc import Iterable
from typing import NamedTuple

from markupsafe import Markup, escape

from headcheck.grader.report.render.sanitise import sanitise

FONT_SIZE = 11
"""the font size of text, in pixels"""


class Box(NamedTuple):
    """A rectangle to draw in."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2


def make_element(name: str, *inside: str, **attributes: object) -> Markup:
    """Return an element with escaped content; underscores in attribute names become hyphens."""
    rendered = "".join(
        f' {key.strip("_").replace("_", "-")}="{escape(_format_value(value))}"'
        for key, value in attributes.items()
    )
    content = "".join(map(escape, inside))
    # All parts have been escaped.
    return Markup(f"<{name}{rendered}>{content}</{name}>" if content else f"<{name}{rendered}/>")


def _format_value(value: object) -> object:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def make_drawing(width: float, height: float, title: str, words: str, *inside: str) -> Markup:
    """Return a drawing with a title and a description for readers who cannot see it."""
    return make_element(
        "svg",
        make_element("title", sanitise(title)),
        make_element("desc", sanitise(words)),
        *inside,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        font_family="inherit",
        font_size=FONT_SIZE,
        fill="currentColor",
        class_="picture",
    )


def draw_text(
    at: tuple[float, float], content: str, *, size: float = FONT_SIZE, **more: object
) -> Markup:
    """Draw text around a point. The baseline is computed: not every renderer can centre text."""
    x, y = at
    attributes = {"text_anchor": "middle", "font_size": size, **more}
    return make_element("text", sanitise(content), x=float(x), y=y + 0.35 * size, **attributes)


def draw_rectangle(box: Box, **more: object) -> Markup:
    """Draw a box with a colour, a frame or both."""
    return make_element("rect", x=box.x, y=box.y, width=box.width, height=box.height, **more)


def draw_hatching(box: Box, colour: str) -> Markup:
    """Draw diagonal lines inside a cell."""
    x, y, size, _ = box
    gap = size / 4
    lines = []
    for i in range(1, 8):
        along = i * gap
        start = (x + min(along, size), y + max(along - size, 0))
        end = (x + max(along - size, 0), y + min(along, size))
        lines.append(f"M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}")
    return make_element("path", d="".join(lines), stroke=colour, stroke_opacity=0.4, fill="none")


def draw_vertical_text(at: tuple[float, float], content: str) -> Markup:
    """Draw text that reads upwards."""
    x, y = at
    return draw_text((0, 0), content, transform=f"translate({x:g} {y:g}) rotate(-90)", opacity=0.8)


def join_elements(parts: Iterable[str]) -> Markup:
    """Join several elements."""
    return Markup("").join(parts)
