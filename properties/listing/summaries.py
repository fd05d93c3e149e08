"""Generate properties/listing/summaries.toml from the properties.

    python -m headcheck.properties.listing.summaries > properties/listing/summaries.toml

A test compares the two.
"""

import json
import sys

from headcheck.properties.families import ALL
from headcheck.properties.property import Property

HEAD = """\
# Do not edit. Made by
#   python -m headcheck.properties.listing.summaries > properties/listing/summaries.toml
# What properties/listing/summary.py reads: all properties, in the order in which they are checked.
"""


def render_file() -> str:
    """Return the text of the file."""
    return "\n".join([HEAD, *map(_render_table, ALL)])


def _render_table(each: Property) -> str:
    needs = json.dumps(sorted(capability.name.lower() for capability in each.needs))
    return (
        f"[{each.name}]\n"
        f"claim = {json.dumps(each.claim, ensure_ascii=False)}\n"
        f'group = "{each.group.value}"\n'
        + (f"needs = {needs}\n" if each.needs else "")
        + ("essential = true\n" if each.essential else "")
    )


if __name__ == "__main__":
    sys.stdout.write(render_file())
