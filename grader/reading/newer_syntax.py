"""Tell syntax of a newer Python from a mistake.

This module rewrites newer syntax to older syntax, version by version. If the text is valid then, it
was written for that version, and nothing else is wrong with it. The result only has to be valid
where the original is; it is never run.
"""

import ast
import re
import sys
import warnings
from collections.abc import Callable

MAX_LENGTH = 200_000
"""longer texts are not examined: a cell that somebody wrote is far shorter"""
MAX_NESTING = 20
"""how deeply nested strings are examined"""

Version = tuple[int, int]
_TYPE_ALIAS = re.compile(r"^([ \t]*)type[ \t]+(\w+)[ \t]*(\[[^\]\n]{0,400}\])?[ \t]*=(?!=)", re.M)
_GENERIC = re.compile(
    r"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+\w+[ \t]*(?=\[\s*[A-Za-z_*])", re.M
)
_EXCEPT = re.compile(
    r"^([ \t]*except\*?)[ \t]+([\w.]+(?:[ \t]*,[ \t]*(?:[A-Z]\w*|\w+\.[\w.]+))+)[ \t]*:", re.M
)
_COMMENT_OR_STRING = re.compile(r"#[^\n]*|(?<!\w)([A-Za-z]{0,2})('''|\"\"\"|'|\")")
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def find_needed_version(text: str, running: Version = sys.version_info[:2]) -> Version | None:
    """Return the newer Python that a text needs; None if no version accepts it."""
    if len(text) > MAX_LENGTH or _is_valid(text):
        return None
    for version, rewrite in _REWRITES.items():
        text = rewrite(text)
        if version > running and _is_valid(text):
            return version
    return None


def _is_valid(text: str) -> bool:
    try:
        with warnings.catch_warnings(action="ignore"):
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


# --------------------------------------------------------------------------- Python 3.12


def _rewrite_3_12(text: str) -> str:
    """Rewrite `type X = …`, type parameters, and f-strings with any expression in them."""
    text = _TYPE_ALIAS.sub(r"\1\2 =", _empty_strings(text, "f"))
    parts, at = [], 0
    for match in _GENERIC.finditer(text):
        if match.start() < at:
            continue
        parts.append(text[at : match.end()])
        at = _find_end_of_brackets(text, match.end())
    return "".join([*parts, text[at:]])


def _find_end_of_brackets(text: str, start: int) -> int:
    """Return the position after the bracket that closes the one at `start`."""
    depth = 0
    for position in range(start, len(text)):
        depth += _BRACKETS.get(text[position], 0)
        if depth == 0:
            return position + 1
    return len(text)


# --------------------------------------------------------------------------- Python 3.14


def _rewrite_3_14(text: str) -> str:
    """Rewrite t-strings, and `except A, B:` without parentheses.

    Not `except A, e:`, which was Python 2.
    """
    return _EXCEPT.sub(r"\1 (\2):", _empty_strings(text, "t"))


# ------------------------------------------------------------------------------ strings


def _empty_strings(text: str, kind: str) -> str:
    """Return the text with all strings of a kind, f or t, emptied; unchanged if one has no end."""
    parts, at = [], 0
    while match := _COMMENT_OR_STRING.search(text, at):
        parts.append(text[at : match.start()])
        at = match.end()
        if match[2] is None:  # a comment
            continue
        prefix = match[1].lower()
        end = _find_end_of_string(text, at, match[2], _has_fields(prefix), 0)
        if end is None:
            return text
        parts.append('""' if kind in prefix else text[match.start() : end])
        at = end
    return "".join([*parts, text[at:]])


def _has_fields(prefix: str) -> bool:
    return "f" in prefix.lower() or "t" in prefix.lower()


def _find_end_of_string(text: str, at: int, quote: str, fields: bool, depth: int) -> int | None:
    """Return the position after a string whose text begins at `at`; None if it has no end."""
    while at < len(text) and depth < MAX_NESTING:
        if text.startswith(quote, at):
            return at + len(quote)
        if text[at] == "\\" or (fields and text.startswith("{{", at)):
            at += 2
        elif text[at] == "\n" and len(quote) == 1:
            return None
        elif fields and text[at] == "{":
            end = _find_end_of_field(text, at + 1, depth + 1)
            if end is None:
                return None
            at = end
        else:
            at += 1
    return None


def _find_end_of_field(text: str, at: int, depth: int) -> int | None:
    """Return the position after the `}` of a replacement field; None if it has no end.

    After a colon outside of brackets there is a format, which has fields, but no strings.
    """
    brackets, in_format = 0, False
    while at < len(text) and depth < MAX_NESTING:
        char, end = text[at], at + 1
        match = None if in_format else _COMMENT_OR_STRING.match(text, at)
        if match is not None:
            end = match.end()
            if match[2] is not None:
                after = _find_end_of_string(text, end, match[2], _has_fields(match[1]), depth + 1)
                if after is None:
                    return None
                end = after
        elif in_format and char == "{":
            after = _find_end_of_field(text, end, depth + 1)
            if after is None:
                return None
            end = after
        elif char == "}" and brackets == 0:
            return end
        elif char == ":" and brackets == 0:
            in_format = True
        elif not in_format:
            brackets += _BRACKETS.get(char, 0)
        at = end
    return None


_REWRITES: dict[Version, Callable[[str], str]] = {(3, 12): _rewrite_3_12, (3, 14): _rewrite_3_14}
