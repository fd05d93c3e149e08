"""Choose sizes and limits that exist in few contracts, if a case leaves them open."""

from collections.abc import Collection

from headcheck.properties.capability import Capability
from headcheck.properties.case import Case
from headcheck.properties.size_rules import SizeRules, list_divisors

USUAL_SOFTCAP = 2.0
"""the limit of scores if a case leaves it open; usual scores come near this limit"""
USUAL_ROPE_DIM = 4
"""the number of rotated coordinates if a case leaves it open: two pairs with different angles"""


def choose_open_sizes(
    capabilities: Collection[Capability], rules: SizeRules | None, case: Case
) -> dict[str, object]:
    """Return the sizes and limits that a contract with these capabilities gives a case."""
    changes: dict[str, object] = {}
    rules = rules or SizeRules()
    half = (min(case.tokens, case.context_length) + 1) // 2
    if Capability.GROUPED in capabilities:
        changes["group"] = _choose_group(rules, case.heads, case.group)
    if Capability.WINDOW in capabilities:
        changes["window"] = rules.fit_size("window", case.window or half)
    if Capability.SOFTCAP in capabilities:
        changes["softcap"] = case.softcap or USUAL_SOFTCAP
    if Capability.LATENT in capabilities:
        changes |= _choose_latents(rules, case)
    if Capability.BLOCKED in capabilities:
        changes["block"] = case.block or half
    return changes


def _choose_latents(rules: SizeRules, case: Case) -> dict[str, int]:
    """Return the width of latents, and an even number of rotating columns."""
    turned = case.rope_dim + case.rope_dim % 2 or USUAL_ROPE_DIM
    latent = rules.fit_size("d_latent", case.d_latent or case.d_out // 2 + 1)
    return {"d_latent": latent, "rope_dim": turned}


def _choose_group(rules: SizeRules, heads: int, asked: int) -> int:
    """Return the nearest group size that divides the heads; a small one if `asked` is 0."""
    allows = rules.get_test("kv_heads")
    sizes = [size for size in list_divisors(heads) if allows(heads // size)]
    if not asked:
        return sizes[min(1, len(sizes) - 1)]
    return max((size for size in sizes if size <= asked), default=sizes[0])
