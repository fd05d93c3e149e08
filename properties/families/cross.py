"""Keys and values come from tokens other than the queries' tokens: cross-attention."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.bounds.oracle import compute_expected
from headcheck.properties.cases.case_tensors import draw_normal, make_other_tokens, round_to_dtype
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.contracts.variant import hides_later_tokens
from headcheck.properties.families.contract import FORM
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import MaskForm
from headcheck.properties.violations.violation import Violation, ViolationKind
from headcheck.reference import Parameters

family_property = PropertyFamily(PropertyGroup.VALUES, FORM)
UNMASKED = compose(at_least(tokens=3), with_values(mask_form=MaskForm.NONE))
FEWER = compose(UNMASKED, with_values(head_dim=7))
"""cases in which a crash shows that one length was mistaken for the other, because no width equals
a length"""


@family_property(
    C.CROSS,
    on=UNMASKED,
    limit=4,
    hint="compute a small case by hand and compare each step with your code",
    essential=True,
)
def keys_and_values_come_from_their_own_tokens(context: LiveContext) -> None:
    """The output equals the equation when keys and values come from other tokens."""
    # What is seen of more keys than queries, where not all are, is a matter of its own.
    for longer in (0,) if hides_later_tokens(context.contract, context.case) else (0, 3):
        assert_equation(context, context.case.tokens + longer)


@family_property(
    C.CROSS,
    C.FULL,
    on=FEWER,
    limit=2,
    hint="x and the tokens that it attends to may have different lengths",
)
def there_may_be_fewer_keys_than_queries(context: LiveContext) -> None:
    """The number of keys and values may be any, even one."""
    for tokens in (1, 2):
        assert_equation(context, tokens)


@family_property(
    C.WIDE_CONTEXT,
    on=UNMASKED,
    limit=3,
    hint="the layers of keys and values read all numbers of the context",
    essential=True,
)
def every_number_of_the_context_counts(context: LiveContext) -> None:
    """The output equals the equation when the context has numbers that x does not have."""
    case, wide = context.case, context.case.d_context
    others = make_other_tokens(case, context.contract, case.tokens, wide)
    rows = len(context.parameters.W_k)
    further = draw_normal(case, "x2", 2, rows, wide - case.d_in) / math.sqrt(wide)
    drawn = zip(("W_k", "W_v"), round_to_dtype(further, case), strict=True)
    layers = {n: torch.cat([getattr(context.parameters, n), each], dim=1) for n, each in drawn}
    assert_equation(context, case.tokens, None, others, replace(context.parameters, **layers))


def assert_equation(
    context: LiveContext,
    tokens: int,
    x: Tensor | None = None,
    others: Sequence[Tensor] | None = None,
    parameters: Parameters | None = None,
) -> None:
    """Raise Violation unless attention to this many other tokens equals the equation."""
    x = context.x if x is None else x
    parameters = context.parameters if parameters is None else parameters
    others = make_other_tokens(context.case, context.contract, tokens) if others is None else others
    adapter = context.adapter
    adapter.set(parameters)
    result = adapter.forward_apart(x, others)
    visible = context.may_attend(x.shape[1], None, tokens)
    expected = compute_expected(context.contract, context.case, x, parameters, visible, others)
    if len(result.outputs) != len(expected.outputs):
        raise Violation(ViolationKind.TYPE, str(context.contract.returns), result.form)
    which = f"with {tokens} {'key' if tokens == 1 else 'keys'}"
    context.assert_matches_oracle(tuple(t.double() for t in result.outputs), expected, which)
