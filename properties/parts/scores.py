"""What changes scores or hides keys beside a mask: a limit of scores, a window, blocks of keys.

Sources: Gemma Team 2024, "Gemma 2", section 2 (arXiv:2408.00118); Beltagy et al. 2020, Longformer,
section 3.1 (arXiv:2004.05150); Dao et al. 2022, FlashAttention, section 3.1 (arXiv:2205.14135).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Part, Problem, Quantity, takes
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import SizeRules

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract

USUAL_SOFTCAP = 2.0
"""the limit of scores if a case leaves it open; usual scores come near this limit"""


def _count_half(case: Case) -> int:
    """Return half of the tokens, rounded up."""
    return (min(case.tokens, case.context_length) + 1) // 2


def _choose_window(rules: SizeRules, case: Case) -> int:
    return rules.fit_size("window", case.window or _count_half(case))


def _find_problems_of_windows(contract: Contract) -> Iterator[Problem]:
    if contract.has(Capability.CROSS) and not contract.has(Capability.CAUSAL):
        text = "two sequences have no common positions, unless queries are the last of the tokens"
        yield ("arguments",), None, f"{text}, as with `causal`: leave the window out"


WINDOW = Part(
    name="window",
    is_in=takes("window"),
    brings=frozenset({Capability.WINDOW}),
    breaks=frozenset({Capability.ANY_DISTANCE}),
    quantities=(
        Quantity("window", _choose_window, (2, 3, 1, 5, 99), words="how many tokens each sees"),
    ),
    needed={Capability.WINDOW: "an argument must take window"},
    find_problems=_find_problems_of_windows,
    describe=lambda contract: "a window",
)
SOFTCAP = Part(
    name="softcap",
    is_in=takes("softcap"),
    brings=frozenset({Capability.SOFTCAP}),
    breaks=frozenset({Capability.DOT_PRODUCT}),
    quantities=(
        Quantity(
            "softcap",
            lambda rules, case: case.softcap or USUAL_SOFTCAP,
            (2.0, 5.0, 30.0, 0.5),
            absent=0.0,
            words="the limit of scores",
        ),
    ),
    needed={Capability.SOFTCAP: "an argument must take softcap"},
    make_steps=lambda contract, case: {"softcap": case.softcap},
)
BLOCKS = Part(
    name="blocks of keys",
    is_in=takes("block"),
    brings=frozenset({Capability.BLOCKED}),
    quantities=(
        Quantity("block", lambda rules, case: case.block or _count_half(case), (2, 3, 1, 5, 99)),
    ),
    needed={Capability.BLOCKED: "an argument must take block"},
)
