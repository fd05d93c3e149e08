"""Pages of Markdown in a language, block by block."""

import re
from collections.abc import Iterator

from headcheck.grader.report.languages.language import Language

FENCE = "```"
BEGINNING = re.compile(r" *- |\d+\. |\|")
"""the beginning of a block without an empty line before it: an item of a list, a row"""


def read_page(page: str, language: Language) -> str:
    """Return a page in a language; a block without a translation stays English."""
    return "\n".join(
        block if is_code else language.say(block) for block, is_code in split_blocks(page)
    )


def split_blocks(page: str) -> Iterator[tuple[str, bool]]:
    """Yield the blocks of a page, each with whether it is code or empty; joined by newlines."""
    block: list[str] = []
    is_code = False
    for line in page.split("\n"):
        if line.startswith(FENCE):
            if not is_code and block:
                yield "\n".join(block), False
                block = []
            block.append(line)
            if is_code:
                yield "\n".join(block), True
                block = []
            is_code = not is_code
        elif is_code:
            block.append(line)
        else:
            if block and (not line or BEGINNING.match(line)):
                yield "\n".join(block), False
                block = []
            if line:
                block.append(line)
            else:
                yield "", True
    if block:
        yield "\n".join(block), is_code
