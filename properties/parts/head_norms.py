"""Norms of what heads give, of each head or of all heads together, before the output layer.

Sources: Ye et al. 2024, "Differential Transformer", eq. 3 (arXiv:2410.05258); of all heads together
Wang et al. 2022, "Foundation Transformers", section 2 (arXiv:2210.06423).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headcheck.properties.parts.norms import LEAST, Norm, NormOver, has_several_heads
from headcheck.properties.parts.part import Part, Problem, holds, list_taken, list_widths
from headcheck.properties.parts.weight import Draws, HeadSizes, Weight
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.case import Case

if TYPE_CHECKING:
    from torch import Tensor

    from headcheck.properties.contracts.contract import Contract


def _count_own(sizes: HeadSizes) -> int:
    """Return how many heads have a gain of their own: all, or one gain serves all heads."""
    return sizes.heads if sizes.head_gains_by_head else 1


def _draw(name: str, start: int) -> Callable[[Draws], Tensor]:
    def draw(draws: Draws) -> Tensor:
        case = draws.case
        width = case.d_out if draws.contract.head_gains_by_head else case.head_dim
        return start + draws.vector(name, width) / 4

    return draw


def _make_weight(name: str, stream: int, start: int, needs: tuple[str, ...] = ()) -> Weight:
    words = f"the {name.split('_')[0]} of the norm of what heads give"
    return Weight(name, stream, _draw(name, start), _count_own, needs=needs, words=words)


def _find_problems(contract: Contract) -> Iterator[Problem]:
    """Check that there are heads to norm, wide enough, and that dropout can be told behind it."""
    if contract.head_norm is Norm.NONE:
        text = 'gain_heads and shift_heads belong to a norm: write head_norm = "rms" or "layer"'
        yield ("parameters",), None, text
        return
    if not contract.stores("W_q"):
        text = "only a module with layers has such a norm: say where W_q is, or leave it out"
        yield ("head_norm",), None, text
    if "dropout" in list_taken(contract):
        text = "a norm hides which weights dropout has kept: leave the argument of dropout out"
        yield ("head_norm",), None, text
    least, whole = LEAST[contract.head_norm], contract.head_norm_over is NormOver.PROJECTION
    if min(list_widths(contract), default=least) < least:
        text = f"a norm of fewer than {least} numbers leaves only signs: write size_rules ="
        yield ("size_rules",), None, f'{text} "head_dim>={least}"'
    if not contract.square and _may_be_one_number(contract):
        text = "values of tokens of one number all lie in one direction: write size_rules ="
        yield ("size_rules",), None, f'{text} "d_in>=2"'
    if whole and not has_several_heads(contract):
        yield ("head_norm_over",), None, "a single head gives everything: leave it out"
    if contract.head_norm_factor <= 0:
        text = f"must be more than 0, not {contract.head_norm_factor:g}"
        yield ("head_norm_factor",), None, text


def _may_be_one_number(contract: Contract) -> bool:
    """Return whether a token may be a single number: then a norm leaves only signs of averages."""
    fixed, rules = (contract.sizes or {}).get("d_in"), contract.size_rules
    return fixed == 1 if fixed else rules is None or rules.get_test("d_in")(1)


def _make_steps(contract: Contract, case: Case) -> Mapping[str, Any]:
    import torch

    from headcheck.reference import HeadNorm

    epsilon = contract.head_norm_epsilon or torch.finfo(getattr(torch, case.dtype)).eps
    over, factor = contract.head_norm_over.value, contract.head_norm_factor
    return {"head_norm": HeadNorm(contract.head_norm.value, over, epsilon, factor)}


def _list_sentences(contract: Contract) -> Iterator[str]:
    of = "all heads give together"
    if contract.head_norm_over is NormOver.HEAD:
        of = "each head gives"
    kind = "an RMS norm" if contract.head_norm is Norm.RMS else "a layer norm"
    added = contract.head_norm_epsilon
    epsilon = f"{added:g}" if added else "the dtype's `eps`"
    factor = f", and is multiplied by {contract.head_norm_factor:g}"
    yield (
        f"\nWhat {of} goes through {kind}, which adds {epsilon} under the root"
        f"{factor * (contract.head_norm_factor != 1)}."
    )


HEAD_NORMS = Part(
    name="norms of what heads give",
    is_in=lambda contract: contract.head_norm is not Norm.NONE or holds("gain_heads")(contract),
    brings=frozenset({Capability.NORMED_HEADS}),
    breaks=frozenset({Capability.UNGATED, Capability.PROPORTIONAL}),
    keys=("head_norm_epsilon", "head_norm_over", "head_norm_factor"),
    missing='a norm of what heads give: write head_norm = "rms" or "layer"',
    weights=(
        _make_weight("gain_heads", 32, 1),
        _make_weight("shift_heads", 33, 0, ("gain_heads",)),
    ),
    needed={Capability.NORMED_HEADS: 'write head_norm = "rms" or "layer"'},
    find_problems=_find_problems,
    make_steps=_make_steps,
    describe=lambda contract: "a norm of what heads give",
    list_sentences=_list_sentences,
)
