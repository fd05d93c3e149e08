"""Sanitise text from a submission for display: remove control characters and limit its length.

Terminals are controlled by characters, and logs of continuous integration by the form of lines:
GitHub's runner obeys a line that begins with `::`, after any blanks, or contains `##[`.
"""

import json
import re

MAX_LINE_LENGTH = 200
"""the most characters of a file name, a class name or another single line"""

# Characters that move the cursor, switch colours, reverse the reading order or are invisible: C0
# and C1 except newline and tab, the soft hyphen, zero-width characters (except the two joiners,
# which scripts and emoji need), marks, embeddings, overrides and isolates of direction, line
# separators, tags, and lone surrogates (of a file name that is not UTF-8), which cannot be written.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
WORKFLOW_COMMAND = re.compile(r"^([^\S\n]*):(?=:)|##(?=\[)", re.MULTILINE)
UNSAFE_IN_LINE = re.compile(f"[\t\n]|{UNSAFE.pattern}")


def sanitise(text: str, limit: int = 4000) -> str:
    """Replace unsafe characters by visible escapes, and return at most `limit` characters.

    Newlines and tabs stay. Of a long text the beginning and the end are kept, with a note of its
    length between them.
    """
    return _sanitise(text, limit, UNSAFE)


def sanitise_line(text: str, limit: int = MAX_LINE_LENGTH) -> str:
    """Sanitise and also escape newlines and tabs, so that the text stays on one line."""
    return _sanitise(text, limit, UNSAFE_IN_LINE)


def escape_json(text: str) -> str:
    """Escape unsafe characters inside the strings of JSON, without changing its content."""
    escaped = UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], text)
    return escaped.replace("##[", "#\\u0023[")


def _escape_command(match: re.Match[str]) -> str:
    return "#\\x23" if match[0] == "##" else f"{match[1]}\\x3a"


def _sanitise(text: str, limit: int, unsafe: re.Pattern[str]) -> str:
    # Escapes never shorten a text, so its middle could not be kept anyway.
    ends = text if len(text) <= 2 * limit else text[:limit] + text[-limit:]
    escaped = WORKFLOW_COMMAND.sub(_escape_command, unsafe.sub(_escape, ends))
    if len(escaped) <= limit:
        return escaped
    gap = f" [… shortened: {len(text)} characters in all …] "
    room = max(limit - len(gap), 0)
    tail = room // 4
    return (escaped[: room - tail] + gap + escaped[len(escaped) - tail :])[:limit]


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFF:
        return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
