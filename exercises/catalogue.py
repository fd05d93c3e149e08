"""Generate docs/exercises.md from the exercises.

    python -m headcheck.exercises.catalogue > docs/exercises.md

A test compares the two.
"""

import sys
from collections.abc import Iterator

from headcheck.exercises import ALL

HEAD = """\
# Exercises

Made by `python -m headcheck.exercises.catalogue > docs/exercises.md`; do not edit.

In teaching order: {count} exercises. The slug names an exercise on the command line and its folder
in `exercises/`. The second column is the class or function to write.

| slug | what is written | title |
|---|---|---|
"""

MAP = """
## What builds on what

```mermaid
flowchart LR
"""


def render_page() -> str:
    """Return the text of the page."""
    rows = [f"| `{each.slug}` | `{each.contract.name}` | {each.title} |\n" for each in ALL]
    return HEAD.format(count=len(ALL)) + "".join(rows) + MAP + "".join(_iter_arrows()) + "```\n"


def _iter_arrows() -> Iterator[str]:
    """Yield a line for every step from an exercise to one that builds on it."""
    for each in ALL:
        for before in each.builds_on:
            yield f"    {before} --> {each.slug}\n"


if __name__ == "__main__":
    sys.stdout.write(render_page())
