"""Weights are dropped independently: pairs of sequences, heads, queries and keys are compared.

`properties/families/dropout.py` counts the dropped weights of many short sequences at one rate.
This file checks other sizes and rates: sequences longer than the width of a head or a block, a
single sequence, fewer tokens than the context, many heads, and rates near 0 and 1. The dropped
weights are observed in the same way. Two parts of the random draws, such as the masks of two heads,
agree on a weight with probability p² + (1 - p)². The check fails if the number of agreements of
some pair has a probability below 10⁻¹⁰, divided by the number of pairs, in a right module. So a
right module fails with probability below 10⁻⁹.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool
from torch import Tensor

from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.counting import count
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.dropout import (
    RATE_HINT,
    assert_frequency,
    dropout_drops_the_stated_share,
)
from headcheck.properties.families.dropout_rates import (
    FALSE_POSITIVE_RATE,
    compute_chance_of_two,
    compute_log_chance,
    estimate_second_keep_rate,
)
from headcheck.properties.families.dropped_weights import (
    DROPOUT_SEED,
    make_revealing_parameters,
    make_unlike_tokens,
    observe_dropout,
    simplify_for_counting,
)
from headcheck.properties.families.precision import bfloat16_runs
from headcheck.properties.harness.call_sizes import add_case
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.steps import build_fresh_module
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Reason, Violation, ViolationKind
from headcheck.reference import split_heads

family_property = PropertyFamily(PropertyGroup.DROPOUT, FORM)
SIZES: tuple[Mapping[str, object], ...] = (
    {"batch": 4, "heads": 6, "tokens": 40, "context_length": 40, "dropout": 0.8},
    {"batch": 1, "heads": 4, "tokens": 24, "context_length": 30, "dropout": 0.05},
    {"batch": 48, "heads": 2, "tokens": 12, "context_length": 14, "dropout": 0.001},
    {"batch": 16, "heads": 3, "tokens": 9, "context_length": 12, "dropout": 0.45},
    {
        "batch": 8,
        "heads": 2,
        "tokens": 12,
        "context_length": 12,
        "dropout": 0.3,
        "dtype": "bfloat16",
    },
)
CALLS = 4
"""how many calls are counted together; two modules are called in turn, and each call has its own
seed
"""


def observe_kept(context: LiveContext) -> Bool[Tensor, "calls batch heads tokens tokens"]:
    """Return which weights were kept in a few training calls."""
    case = context.case
    x = make_unlike_tokens(case).expand(case.batch, -1, -1).contiguous()
    parameters = make_revealing_parameters(context)
    modules = itertools.cycle((build_fresh_module(context), build_fresh_module(context)))
    seeds = range(DROPOUT_SEED, DROPOUT_SEED + CALLS)
    calls = [
        context.run_module(x, parameters, None, CallOptions(training=True, seed=seed), module)[0]
        for seed, module in zip(seeds, modules, strict=False)
    ]
    return torch.stack(
        [split_heads(output, case.heads)[..., : case.tokens] != 0 for output in calls]
    )


def fit_sizes(case: Case, sizes: Mapping[str, object]) -> Case:
    """Return a case of these sizes in which each number of the output shows one weight."""
    case = replace(simplify_for_counting(case), **sizes)  # type: ignore[arg-type]  # as the fields
    return replace(case, head_dim=case.tokens, d_in=case.tokens)


def fit_visibly(contract: Contract, case: Case) -> Case:
    """Return the nearest case of a contract whose heads are wide enough to show all weights."""
    case = contract.fit(case)
    if case.tokens > case.head_dim:  # not every number of tokens is allowed
        case = contract.fit(replace(case, head_dim=case.tokens, d_in=case.tokens))
    return contract.fit(replace(case, tokens=min(case.tokens, case.head_dim, case.d_in)))


@family_property(
    C.DROPOUT,
    C.WIDTHS,
    after=(dropout_drops_the_stated_share, bfloat16_runs),
    on=simplify_for_counting,
    limit=1,
    hint="each weight is dropped or kept by a draw of its own, at any rate",
    dtypes=("float64",),
    usual=0,
)
def no_two_weights_are_dropped_together(context: LiveContext) -> None:
    """At other sizes and rates, weights are also dropped at the stated rate, independently."""
    if estimate_second_keep_rate(context, context.compute_once(observe_dropout)) < 1:
        return  # elements of the output are dropped as well, and hide which weights are
    for sizes in SIZES:
        case = fit_visibly(context.contract, fit_sizes(context.case, sizes))
        if case.dtype == "bfloat16" and not context.contract.has(C.STATED):
            continue  # nothing says that it computes in half precision
        other = context.harness.create_context(case)
        with add_case(context.contract, case):
            _assert_dropped_apart(case, observe_kept(other), other.list_visible())


def _assert_dropped_apart(
    case: Case, kept: Bool[Tensor, "calls batch heads queries keys"], visible: Tensor
) -> None:
    """Raise Violation if a rate is wrong, or if two parts of the draws are too similar."""
    if bool(kept[..., visible].all()):
        _assert_rate(case, kept[..., visible])
    found = (_find_like_pair(case, kept, visible, name, axis) for name, axis in PARTS.items())
    # What is shared by some parts makes others uneven, too, but not as much.
    alike = max(filter(None, found), key=lambda pair: pair.excess, default=None)
    if alike is not None:
        raise _make_violation(case, alike)
    _assert_rate(case, kept[..., visible])


PARTS = {"calls": 0, "sequences": 1, "heads": 2, "queries": 3, "keys": 4}
"""the axes of the tensor that says which weights were kept"""


def _assert_rate(case: Case, kept: Tensor) -> None:
    where = f"{count(case.heads, 'head')} in training"
    assert_frequency(~kept, case.dropout, "the share of dropped weights", where, RATE_HINT)


@dataclass(frozen=True)
class LikePair:
    """Two parts that agree on more or fewer weights than chance explains."""

    name: str
    agreed: int
    count: int
    excess: float
    """the difference between their share of agreement and the expected one"""


def _find_like_pair(
    case: Case, kept: Tensor, visible: Tensor, axis_name: str, axis: int
) -> LikePair | None:
    """Return the least probable pair of parts along an axis; None if chance explains it."""
    parts = kept.shape[axis]
    if parts < 2:
        return None
    # These are sums of ones, which are exact in float32.
    seen = visible.expand(kept.shape).movedim(axis, 0).flatten(1).float()
    signs = (2.0 * kept - 1).movedim(axis, 0).flatten(1) * seen
    counts = (seen @ seen.T).double()
    agreed = ((signs @ signs.T).double() + counts) / 2
    together = compute_chance_of_two(case.dropout)
    limit = math.log(FALSE_POSITIVE_RATE / (parts * (parts - 1) / 2))
    chance = compute_log_chance(agreed, counts, together).fill_diagonal_(0)
    if not bool((chance < limit).any()):
        return None
    excess = (agreed / counts.clamp_min(1) - together).abs().where(chance < limit, 0.0)
    one, other = sorted(divmod(int(excess.argmax()), parts))
    name = f"{axis_name} {one} and {other}"
    count, alike = int(counts[one, other]), int(agreed[one, other])
    return LikePair(name, alike, count, float(excess[one, other]))


def _make_violation(case: Case, pair: LikePair) -> Violation:
    together = compute_chance_of_two(case.dropout)
    expected = f"{together:.4f} of the weights dropped in both or in none, by chance"
    got = f"{pair.agreed / pair.count:.4f} (of {pair.count} looked at)"
    where = f"{pair.name} in training"
    return Violation(ViolationKind.VALUE, expected, got, where, reason=Reason.DROPPED_TOGETHER)
