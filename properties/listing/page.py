"""Generate docs/properties.md from the properties.

    python -m headcheck.properties.listing.page > docs/properties.md

A test compares the two.
"""

import sys
from collections.abc import Iterator

from headcheck.properties.families import ALL
from headcheck.properties.families.contract import FORM
from headcheck.properties.property import Property, PropertyGroup

HEAD = """\
# Properties

Made by `python -m headcheck.properties.listing.page > docs/properties.md`; do not edit.

What holds of every correct implementation, in the order in which it is checked: {count} properties.
The name is that of the check function in `properties/families/`. The claim is the first line of its
docstring, which a student reads.

*needs*: the capabilities that a contract must have for the property to make sense;
[`properties/terms/capability.py`](../properties/terms/capability.py) explains them. A dash means
every contract.

*after*: the properties without which this one is not tried. "form" means the first three."""


def render_page() -> str:
    """Return the text of the page."""
    parts = [HEAD.format(count=len(ALL))]
    for group in dict.fromkeys(each.group for each in ALL):
        parts.append("\n".join(_render_table(group)))
    return "\n\n".join(parts) + "\n"


def _render_table(group: PropertyGroup) -> Iterator[str]:
    yield f"## {group.value.capitalize()}\n"
    yield "| name | claim | needs | after |"
    yield "|---|---|---|---|"
    for each in ALL:
        if each.group is group:
            yield _render_row(each)


def _render_row(each: Property) -> str:
    needs = ", ".join(sorted(capability.name.lower() for capability in each.needs))
    cells = f"`{each.name}`", each.claim, needs or "–", _format_requirements(each) or "–"
    return " | ".join(["", *(cell.replace("|", "\\|") for cell in cells), ""]).strip()


def _format_requirements(each: Property) -> str:
    """Name the prerequisites; one word stands for all prerequisites about the form."""
    required = list(each.requires)
    formed = set(FORM) <= set(required)
    rest = [f"`{other.name}`" for other in required if not (formed and other in FORM)]
    return ", ".join([*(["form"] * formed), *rest])


if __name__ == "__main__":
    sys.stdout.write(render_page())
