"""Comparisons of whole answers, shared by several families."""

import torch
from torch import Tensor

from headcheck.properties.cases.case_tensors import round_to_dtype
from headcheck.properties.families.parameter_transforms import (
    make_identity_projection,
    replace_parameters,
)
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.violations.violation import Reason, Violation, ViolationKind
from headcheck.reference import Parameters


def assert_right_with(
    context: CaseContext, parameters: Parameters, x: Tensor | None = None
) -> None:
    """Raise Violation unless the answer under other parameters equals the oracle's."""
    answer = context.run(x, parameters)
    context.assert_matches_oracle(answer, context.compute_expected(x, parameters))


def assert_fewer_numbers(numbers: int, most: int, where: str, when: str = "") -> None:
    """Raise Violation unless a call holds fewer numbers than this."""
    if numbers >= most:
        expected, reason = f"fewer than {most} numbers {when}".rstrip(), Reason.TOO_MANY_NUMBERS
        raise Violation(ViolationKind.VALUE, expected, f"{numbers}", where, reason=reason)


def assert_only_bias_left(context: CaseContext, parameters: Parameters) -> None:
    """Raise Violation unless the output is no more than the output layer's bias."""
    output, bias = context.run(parameters=parameters)[0], parameters.b_o
    nothing = torch.zeros(context.case.d_out) if bias is None else bias
    tolerance = context.compute_expected(parameters=parameters).tolerances[0]
    context.assert_close(output, nothing.expand_as(output).double(), tolerance)


def assert_each_head_has_its_own(context: CaseContext, name: str) -> None:
    """Raise Violation if a parameter's number for one head changes the output of another head."""
    d, identity = context.case.head_dim, make_identity_projection(context)
    before = context.run(parameters=replace_parameters(context, **identity))[0]
    for head in {0, context.case.heads - 1}:
        numbers = getattr(context.parameters, name).clone()
        numbers[head] += 2
        numbers = round_to_dtype(numbers, context.case)
        changed = replace_parameters(context, **identity, **{name: numbers})
        own = slice(head * d, (head + 1) * d)
        assert_other_columns_unchanged(context, changed, before, own, f"head {head}")


def assert_other_columns_unchanged(
    context: CaseContext,
    changed: Parameters,
    before: Tensor,
    own: slice,
    whose: str,
) -> None:
    """Raise Violation if changed parameters change other columns of the output than `own`."""
    after = context.run(parameters=changed)[0].clone()
    after[..., own] = before[..., own]  # so that the place of a wrong number is that in the output
    tolerance = context.compute_expected(parameters=changed).tolerances[0]
    context.assert_unchanged(after, before, tolerance, f"output outside {whose}")
