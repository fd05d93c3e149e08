"""Shared keys: several heads have the same keys and values.

Source: Ainslie et al. 2023, section 2.2 (arXiv:2305.13245).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Part, Quantity, takes
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import SizeRules, list_divisors

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract


def _is_in(contract: Contract) -> bool:
    """Return whether an argument says how many heads share, or the shape of a function's keys."""
    is_listed = Capability.GROUPED in contract.capabilities and _is_given_keys(contract)
    return takes("kv_heads")(contract) or "group" in (contract.sizes or {}) or is_listed


def _is_given_keys(contract: Contract) -> bool:
    """Return whether a call is given keys that are cut into heads, as a function may be."""
    return "key" in contract.call and not contract.mappings and contract.call_form.axes.are_cut


def _choose_group(rules: SizeRules, case: Case) -> int:
    """Return the nearest group size that divides the heads; a small one if the case has none."""
    allows = rules.get_test("kv_heads")
    sizes = [size for size in list_divisors(case.heads) if allows(case.heads // size)]
    if not case.group:
        return sizes[min(1, len(sizes) - 1)]
    return max((size for size in sizes if size <= case.group), default=sizes[0])


SHARED_KEYS = Part(
    name="shared keys",
    is_in=_is_in,
    brings=frozenset({Capability.GROUPED}),
    breaks=frozenset({Capability.OWN_KEYS}),
    quantities=(
        # 99 is capped at the heads, which then share all.
        Quantity(
            "group",
            _choose_group,
            (2, 1, 3, 99),
            argument="kv_heads",
            words="the number of heads of keys and values",
        ),
    ),
    needed={
        Capability.GROUPED: "an argument must take kv_heads, or a function keys cut into heads"
    },
    describe=lambda contract: "shared keys and values",
)
