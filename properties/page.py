"""The page docs/invariants.md, made from the invariants themselves.

    python -m properties.page > docs/invariants.md

A test compares the two.
"""

import sys
from collections.abc import Iterator

from properties.families import ALL
from properties.families.contract import FORM
from properties.property import Property, PropertyGroup

HEAD = """\
# Invariants

Made by `python -m properties.page > docs/invariants.md`; do not edit.

What holds of every correct implementation, in the order in which it is tried: {count} claims.
The name is that of the judging function in `properties/families/`, the claim is the first line
of its docstring and what a student reads.

*needs*: the traits that a contract must have for the claim to make sense; what they mean stands
in [`properties/contract.py`](../properties/contract.py). A dash means every contract.

*after*: the claims without which this one is not tried. "form" stands for the first three."""


def render_page() -> str:
    """The page, ready to be written."""
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
    needs = ", ".join(sorted(trait.name.lower() for trait in each.needs))
    cells = f"`{each.name}`", each.claim, needs or "–", _format_requirements(each) or "–"
    return " | ".join(["", *(cell.replace("|", "\\|") for cell in cells), ""]).strip()


def _format_requirements(each: Property) -> str:
    """What must hold before, the claims about the form as one word."""
    required = list(each.requires)
    formed = set(FORM) <= set(required)
    rest = [f"`{other.name}`" for other in required if not (formed and other in FORM)]
    return ", ".join([*(["form"] * formed), *rest])


if __name__ == "__main__":
    sys.stdout.write(render_page())
