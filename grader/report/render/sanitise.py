"""Text that a submission wrote, made fit to be shown: nothing that controls, and not too long.

A terminal is controlled by characters, and a log of continuous integration by what lines look like:
GitHub's runner obeys a line that begins with `::`, after any blanks, or has `##[` in it.
"""

import json
import re

MAX_LINE_LENGTH = 200
"""how many characters of a file name, a class name or another single line are shown"""

# What moves the cursor, switches colours, reverses the reading order or cannot be seen: C0 and C1
# but newline and tab, the soft hyphen, zero-width characters (but the two joiners, which scripts
# and emoji need), marks, embeddings, overrides and isolates of direction, separators of lines,
# tags, and halves of surrogate pairs (a file name that is not UTF-8), which cannot be written.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
WORKFLOW_COMMAND = re.compile(r"^([^\S\n]*):(?=:)|##(?=\[)", re.MULTILINE)
UNSAFE_IN_LINE = re.compile(f"[\t\n]|{UNSAFE.pattern}")


def sanitise(text: str, limit: int = 4000) -> str:
    """The text with what controls as visible escapes, at most `limit` characters of it.

    Newlines and tabs stay. Of a long text the beginning and the end are kept, and a note between
    them says how long it was.
    """
    return _sanitise(text, limit, UNSAFE)


def sanitise_line(text: str, limit: int = MAX_LINE_LENGTH) -> str:
    """As `harmless`, with newlines and tabs escaped too: it cannot pass for several lines."""
    return _sanitise(text, limit, UNSAFE_IN_LINE)


def escape_json(text: str) -> str:
    """The same JSON, with whatever controls a terminal or a log as escapes inside its strings."""
    escaped = UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], text)
    return escaped.replace("##[", "#\\u0023[")


def _escape_command(match: re.Match[str]) -> str:
    return "#\\x23" if match[0] == "##" else f"{match[1]}\\x3a"


def _sanitise(text: str, limit: int, unfit: re.Pattern[str]) -> str:
    # An escape is longer than what it stands for, so what lies further in could not be shown.
    ends = text if len(text) <= 2 * limit else text[:limit] + text[-limit:]
    escaped = WORKFLOW_COMMAND.sub(_escape_command, unfit.sub(_escape, ends))
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
