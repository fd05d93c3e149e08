"""Colours for Python code: Pygments reads it, and a span for a run of tokens says their kind.

The colours themselves stand in the style of a page, once for light and once for dark.
"""

from collections.abc import Iterable, Iterator, Sequence
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
"""the class of the tokens that have a colour, by their type; what is below a type has its class"""
COLOURED = MappingProxyType({"c": Comment, "k": Keyword, "d": Name.Class, "s": String})
"""the type whose colour a class has"""
LIGHT, DARK = "xcode", "github-dark"
"""styles of Pygments whose colours can be read on the grounds that code has here"""

Run = tuple[str, str]
"""a class, empty for plain code, and text on one line"""


def highlight(code: str) -> Markup:
    """Return code with its colours."""
    return Markup("\n").join(highlight_lines(code.split("\n")))


def highlight_lines(lines: Sequence[str]) -> list[Markup]:
    """Return each of these lines, read together, with its colours."""
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


def _read_runs(code: str) -> list[Run]:
    """Return the runs of code that may begin within a docstring.

    Read from there, what is code would be a string: the reading with the least in strings counts.
    """
    cut = [f"{quotes}\n" for quotes in ('"""', "'''") if code.count(quotes) % 2]
    readings = [list(_read_after(opening, code)) for opening in ("", *cut)]
    return min(readings, key=_measure_strings)


def _read_after(opening: str, code: str) -> Iterator[Run]:
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    hidden = len(opening)
    for type_, text in lexer.get_tokens(opening + code):
        kind = next((kind for known, kind in KINDS.items() if type_ in known), "")
        yield kind, text[hidden:]
        hidden = max(hidden - len(text), 0)


def _measure_strings(runs: Sequence[Run]) -> int:
    return sum(len(text) for kind, text in runs if kind == KINDS[String])


def _join_runs(runs: Iterable[Run]) -> Markup:
    """Return a line with a span for each run of one kind."""
    merged = groupby(runs, key=lambda run: run[0])
    return Markup("").join(
        _mark_up(kind, "".join(text for _, text in members)) for kind, members in merged
    )


def _mark_up(kind: str, text: str) -> Markup:
    return (
        Markup('<span class="{}">{}</span>').format(kind, text) if kind and text else escape(text)
    )
