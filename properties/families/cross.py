"""Keys and values come from other tokens than the queries: cross-attention."""

from dataclasses import replace

import torch
from torch import Tensor

from properties.case import MaskForm
from properties.cases.case_tensors import draw_normal, round_to_dtype
from properties.cases.case_transforms import at_least, compose, with_values
from properties.contract import Capability
from properties.families.contract import FORM
from properties.harness.harness import LiveContext
from properties.oracle import get_scale
from properties.property import PropertyFamily, PropertyGroup
from properties.tolerance import PRECISIONS, Tolerance
from properties.violation import Violation, ViolationKind
from reference import multi_head_attention

family_property = PropertyFamily(PropertyGroup.VALUES, FORM)
C = Capability
UNMASKED = compose(at_least(tokens=3), with_values(mask_form=MaskForm.NONE))
ROUNDINGS = 2.0**20
"""How far an answer may be off, in units in the last place of the largest number: it is compared
for what it is made of, not for how exactly; exactness is judged where all tokens are the same."""


@family_property(
    C.CROSS,
    on=UNMASKED,
    limit=4,
    hint="queries come from the first input, keys and values from the others",
)
def keys_and_values_come_from_their_own_tokens(context: LiveContext) -> None:
    """Queries, keys and values are each projected from the input that is theirs."""
    for longer in (0, 3):
        _assert_equation(context, context.case.tokens + longer)


@family_property(C.CROSS, on=UNMASKED, limit=2, hint="take lengths from the tensors, not from x")
def there_may_be_fewer_keys_than_queries(context: LiveContext) -> None:
    """There may be any number of keys and values, a single one as well."""
    for tokens in (1, 2):
        _assert_equation(context, tokens)


def _assert_equation(context: LiveContext, tokens: int) -> None:
    """Raise Violation unless queries attend to so many other tokens as the equation says."""
    inputs = [role for role in context.contract.call_form.inputs if role != "mask"]
    others = [_draw_tokens(context, seed, tokens) for seed in range(1, len(inputs))]
    adapter = context.adapter
    adapter.set(context.parameters)
    result = adapter.forward_apart(context.x, others)
    exact = multi_head_attention(
        context.x,
        context.parameters,
        context.case.heads,
        None,
        get_scale(context.contract, context.case),
        keys_from=others[0],
        values_from=others[-1],
    )
    if not result.outputs:
        raise Violation(ViolationKind.TYPE, "an output", result.form)
    slack = ROUNDINGS * PRECISIONS[context.case.dtype].u * exact.output.abs().max()
    limit = torch.full_like(exact.output, float(slack))
    tolerance = Tolerance(limit, limit.clamp_min(float(PRECISIONS["float32"].u * ROUNDINGS)))
    context.assert_close(result.outputs[0].double(), exact.output, tolerance)


def _draw_tokens(context: LiveContext, number: int, tokens: int) -> Tensor:
    case = replace(context.case, seed=context.case.seed + 100 * number)
    return round_to_dtype(draw_normal(case, "x", case.batch, tokens, case.d_in), case)
