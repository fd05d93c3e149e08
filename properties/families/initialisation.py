"""A new module starts from random weights, each its own."""

import torch
from torch import Tensor

from properties.cases.case_transforms import at_least
from properties.contract import Capability
from properties.families.contract import FORM
from properties.harness.case_context import CaseContext
from properties.harness.harness import LiveContext
from properties.harness.module_adapter import construct
from properties.property import PropertyFamily, PropertyGroup
from properties.violation import Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.INITIALISATION, FORM)
C = Capability
WIDE = at_least(d_in=6, heads=2, head_dim=4)


def read_first_initial_weights(context: LiveContext) -> dict[str, Tensor]:
    """The weights of a module built after torch.manual_seed(1)."""
    return read_initial_weights(context, 1)


def read_initial_weights(context: LiveContext, seed: int) -> dict[str, Tensor]:
    """The weights of a module built after torch.manual_seed(seed), by canonical name."""
    module = construct(context.harness.subject, context.contract, context.case, seed).holder
    stored = module.read(list(context.contract.get_parameter_shapes(context.case)))
    return context.contract.to_canonical(stored, context.case)


def _describe_initial_weight(context: CaseContext, name: str) -> str:
    return f"the initial {context.contract.describe_parameter(name)}"


@family_property(C.INITIALISED, on=WIDE, limit=1, hint="give each projection a layer of its own")
def the_projections_start_different(context: LiveContext) -> None:
    """Queries, keys and values start from different weights, none of them constant."""
    weights = {
        n: t
        for n, t in context.compute_once(read_first_initial_weights).items()
        if n.startswith("W_")
    }
    for name, tensor in weights.items():
        if bool((tensor == tensor.flatten()[0]).all()):
            value = float(tensor.flatten()[0])
            raise Violation(
                ViolationKind.VALUE,
                "random numbers",
                f"all are {value:g}",
                _describe_initial_weight(context, name),
            )
    for one, other in (("W_q", "W_k"), ("W_q", "W_v"), ("W_k", "W_v")):
        if weights[one].shape == weights[other].shape and torch.equal(weights[one], weights[other]):
            raise Violation(
                ViolationKind.VALUE, "different weights", "the same", f"{one} and {other}"
            )


@family_property(
    C.INITIALISED, C.HEADS, on=WIDE, limit=1, hint="[Head(...)] * n is n times the same head"
)
def the_heads_start_different(context: LiveContext) -> None:
    """Every head starts from weights of its own."""
    for name, tensor in context.compute_once(read_first_initial_weights).items():
        if name in ("W_q", "W_k", "W_v"):
            heads = tensor.unflatten(0, (context.case.heads, -1))
            if torch.equal(heads[0], heads[1]):
                raise Violation(
                    ViolationKind.VALUE, "different weights", "the same", f"{name}, heads 0, 1"
                )


@family_property(
    C.INITIALISED, on=WIDE, limit=1, hint="do not call torch.manual_seed inside the module"
)
def every_module_starts_anew(context: LiveContext) -> None:
    """Two modules start different; after the same torch.manual_seed they start the same."""
    one, other = context.compute_once(read_first_initial_weights), read_initial_weights(context, 2)
    if torch.equal(one["W_q"], other["W_q"]):
        raise Violation(ViolationKind.VALUE, "other weights after another seed", "the same", "W_q")
    if not torch.equal(one["W_q"], read_initial_weights(context, 1)["W_q"]):
        raise Violation(
            ViolationKind.VALUE, "the same weights after the same seed", "others", "W_q"
        )


@family_property(
    C.UNIFORM,
    on=at_least(d_in=40, head_dim=40),
    limit=1,
    hint="nn.Parameter(torch.rand(d_in, d_out))",
)
def the_weights_start_between_zero_and_one(context: LiveContext) -> None:
    """The weights start from torch.rand: evenly spread over [0, 1)."""
    for name, tensor in read_initial_weights(context, 1).items():
        low, high, mean = float(tensor.min()), float(tensor.max()), float(tensor.mean())
        if low < 0 or high > 1:
            got = f"from {low:.3g} to {high:.3g}"
            raise Violation(
                ViolationKind.VALUE,
                "numbers from 0 to 1",
                got,
                _describe_initial_weight(context, name),
            )
        # 1,600 numbers: the mean is within 0.05 of 1/2 but for one module in 10¹¹.
        if abs(mean - 0.5) > 0.05:
            raise Violation(
                ViolationKind.VALUE,
                "a mean of 0.5",
                f"{mean:.3g}",
                _describe_initial_weight(context, name),
            )


ALL = (
    the_projections_start_different,
    the_heads_start_different,
    every_module_starts_anew,
    the_weights_start_between_zero_and_one,
)
