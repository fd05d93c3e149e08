"""Colours for Python code: Pygments parses the code, and a span around tokens names their kind.

The colours themselves are in the style sheet of a page, once for light and once for dark.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from types import MappingProxyType

from markupsafe import Markup, escape
from pygments.lexers.python import PythonLexer
from pygments.styles import get_style_by_name
from pygments.token import Comment, Keyword, Name, Operator, String

KINDS = MappingProxyType(
    {
        Comment: "c",
        Keyword: "k",
        Operator.Word: "k",
        Name.Class: "d",
        Name.Function: "d",
        Name.Decorator: "d",
        String: "s",
    }
)
"""the CSS class of each type of token that has a colour; subtypes have the class of their type"""
COLOURED = MappingProxyType({"c": Comment, "k": Keyword, "d": Name.Class, "s": String})
"""the type of token from which each CSS class takes its colour"""
LIGHT, DARK = "xcode", "github-dark"
"""styles of Pygments whose colours are readable on the backgrounds that code has here"""

QUOTES = re.compile("\"{3}|'{3}")
COMMENT = re.compile("#.*")
BEFORE_STRING = re.compile(r"(^|[:,(\[{=+]|\breturn)\s*[rbfu]{0,2}$", re.IGNORECASE)
"""the end of a piece of code after which a string may begin, with the string's prefix"""

Run = tuple[str, str]
"""a CSS class (empty for plain code), and text on one line"""


def highlight(code: str) -> Markup:
    """Return code with its colours."""
    return Markup("\n").join(highlight_lines(code.split("\n")))


def highlight_lines(lines: Sequence[str]) -> list[Markup]:
    """Return each of these lines with its colours; the lines are parsed together."""
    found: list[list[Run]] = [[]]
    for kind, text in _read_runs("\n".join(lines)):
        first, *rest = text.split("\n")
        found[-1].append((kind, first))
        found += [[(kind, each)] for each in rest]
    return [_join_runs(runs) for runs in found]


def write_colours(style: str) -> str:
    """Return CSS that sets a variable for each class to its colour in a style of Pygments."""
    known = get_style_by_name(style)
    colours = {kind: known.style_for_token(type_)["color"] for kind, type_ in COLOURED.items()}
    return " ".join(f"--{kind}: #{colour};" for kind, colour in colours.items())


def _read_runs(code: str) -> Iterator[Run]:
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    opening = _find_opening(code)
    hidden = len(opening)
    for type_, text in lexer.get_tokens(opening + code):
        kind = next((kind for known, kind in KINDS.items() if type_ in known), "")
        yield kind, text[hidden:]
        hidden = max(hidden - len(text), 0)


def _find_opening(code: str) -> str:
    """Return the opening quotes missing from code that begins within a docstring, or ""."""
    quotes = QUOTES.search(code)
    if quotes is None:
        return ""
    before = COMMENT.sub("", code[: quotes.start()])
    starts_line = not before.rpartition("\n")[2].strip()
    is_docstring = starts_line and code[quotes.end() : quotes.end() + 1].strip()
    return "" if is_docstring or BEFORE_STRING.search(before) else f"{quotes[0]}\n"


def _join_runs(runs: Sequence[Run]) -> Markup:
    """Return a line with a span for each run of one kind."""
    merged = groupby(_colour_blanks(runs), key=lambda run: run[0])
    return Markup("").join(
        _mark_up(kind, "".join(text for _, text in members)) for kind, members in merged
    )


def _colour_blanks(runs: Sequence[Run]) -> list[Run]:
    """Return runs in which blanks have the kind of what follows them.

    Between two tags they would be a text of their own, and where nbconvert exports a notebook to
    HTML, such a text shrinks to a single blank.
    """
    found: list[Run] = []
    for kind, text in reversed(runs):
        found.append((found[-1][0] if found and text.isspace() else kind, text))
    return found[::-1]


def _mark_up(kind: str, text: str) -> Markup:
    return (
        Markup('<span class="{}">{}</span>').format(kind, text) if kind and text else escape(text)
    )
