"""A new module starts from random weights that are drawn independently."""

import functools
import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from headcheck.properties.cases.case_transforms import at_least
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import construct
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.violations.violation import Reason, Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.INITIALISATION, FORM)
WIDE = at_least(d_in=6, heads=17, head_dim=2)


def read_first_initial_weights(context: LiveContext) -> dict[str, Tensor]:
    """Return the weights of a module built after torch.manual_seed(1)."""
    return read_initial_weights(context, 1)


def read_initial_weights(context: LiveContext, seed: int) -> dict[str, Tensor]:
    """Return the weights of a module built after torch.manual_seed(seed), by canonical name."""
    module = construct(context.harness.subject, context.contract, context.case, seed).holder
    stored = module.read(list(context.contract.get_parameter_shapes(context.case)))
    return context.contract.to_canonical(stored, context.case)


def _describe_initial_weight(context: CaseContext, name: str) -> str:
    return f"the initial {context.contract.describe_parameter(name)}"


initial_property = functools.partial(family_property, C.STATED, C.INITIALISED, on=WIDE, limit=1)


@initial_property(hint="every weight starts from random numbers of its own")
def the_projections_start_different(context: LiveContext) -> None:
    """Queries, keys and values start from different weights, and none of these is constant."""
    initial = context.compute_once(read_first_initial_weights)
    # Numbers that are added to scores may start from zero: then they change nothing at first.
    names = [name for name in initial if name.startswith("W_") and name != "W_rel"]
    weights = {name: initial[name] for name in names}
    for name, tensor in weights.items():
        first = tensor.flatten()[0]
        if bool((tensor == first).all()):
            where = _describe_initial_weight(context, name)
            got = f"all are {float(first):g}"
            reason = Reason.CONSTANT_START
            raise Violation(ViolationKind.VALUE, "random numbers", got, where, reason=reason)
    rows = {name: _list_rows(weights[name]) for name in ("W_q", "W_k", "W_v")}
    for one, other in itertools.combinations(rows, 2):
        _assert_no_common_row(rows[one], rows[other], f"{one} and {other}")


def _list_rows(weight: Tensor) -> list[bytes]:
    """Return a weight's rows as bytes, since comparing all pairs takes seconds at width 768."""
    numbers = weight[~weight.isnan().any(-1)].double() + 0.0  # so that 0 and -0 are one
    return [row.tobytes() for row in numbers.numpy()]


def _assert_no_common_row(one: Sequence[bytes], other: Sequence[bytes], where: str) -> None:
    """Raise Violation if two weights share a row, which random weights never do."""
    if not set(one).isdisjoint(other):
        got = "the same" if one == other else "partly the same"
        reason = Reason.SAME_START if one == other else ""
        raise Violation(ViolationKind.VALUE, "different weights", got, where, reason=reason)


@initial_property(C.HEADS, hint="every head starts from random numbers of its own")
def the_heads_start_different(context: LiveContext) -> None:
    """Every head starts from weights of its own."""
    for name, tensor in context.compute_once(read_first_initial_weights).items():
        if name in ("W_q", "W_k", "W_v"):
            blocks = tensor.unflatten(0, (-1, context.case.head_dim))
            heads = [_list_rows(head) for head in blocks]
            for one, other in itertools.combinations(range(len(heads)), 2):
                _assert_no_common_row(heads[one], heads[other], f"{name}, heads {one}, {other}")


@initial_property(hint="weights come from torch's random numbers; no seed is set here")
def every_module_starts_anew(context: LiveContext) -> None:
    """Two modules start from different weights, but from equal ones after the same seed."""
    one, other = context.compute_once(read_first_initial_weights), read_initial_weights(context, 2)
    again = read_initial_weights(context, 1)
    for name in ("W_q", "W_k", "W_v"):  # others may start from zero, or from the identity
        tensor, where = one[name], _describe_initial_weight(context, name)
        if torch.equal(tensor, other[name]):
            expected = "other weights after another seed"
            raise Violation(ViolationKind.VALUE, expected, "the same", where)
        if not torch.equal(tensor, again[name]):
            expected = "the same weights after the same seed"
            raise Violation(ViolationKind.VALUE, expected, "others", where)
    _assert_no_seed_set(context)


def _assert_no_seed_set(context: LiveContext) -> None:
    """Raise Violation if the random numbers drawn after building do not depend on those before."""
    subject, contract = context.harness.subject, context.contract
    arguments = contract.build_arguments(context.case)
    one, other = (subject.draw_after_construction(contract.name, arguments, s) for s in (1, 2))
    if one.shape == other.shape and bool((one == other).any()):
        expected = "random numbers that go on from the seed that was set before it was built"
        raise Violation(ViolationKind.VALUE, expected, "they are the same after any seed")


@initial_property(hint="torch.empty() contains the old contents of its memory")
def every_parameter_starts_from_numbers_of_its_own(context: LiveContext) -> None:
    """Parameters start from chosen or drawn numbers, not from old contents of memory."""
    contract = context.contract
    unset = context.harness.subject.list_unset(
        contract.name, contract.build_arguments(context.case)
    )
    if unset:
        got = "whatever the memory held that it was given"
        where = f"the initial {unset[0]}"
        raise Violation(ViolationKind.VALUE, "numbers chosen or drawn", got, where)


@family_property(
    C.UNIFORM,
    on=at_least(d_in=40, head_dim=40),
    limit=1,
    hint="the statement names the function that draws them",
)
def the_weights_start_between_zero_and_one(context: LiveContext) -> None:
    """The weights start from torch.rand: evenly spread over [0, 1)."""
    for name, tensor in read_initial_weights(context, 1).items():
        low, high, mean = float(tensor.min()), float(tensor.max()), float(tensor.mean())
        where = _describe_initial_weight(context, name)
        if low < 0 or high > 1:
            got = f"from {low:.3g} to {high:.3g}"
            raise Violation(ViolationKind.VALUE, "numbers from 0 to 1", got, where)
        # Of 1,600 numbers the mean is within 0.05 of 1/2, except for one module in 10¹¹.
        if abs(mean - 0.5) > 0.05:
            raise Violation(ViolationKind.VALUE, "a mean of 0.5", f"{mean:.3g}", where)
