"""The scores are q·k / √head_dim, nothing else of q and k matters, and large ones are survived."""

from dataclasses import replace

import torch
from torch import Tensor

from properties.case import MaskForm
from properties.cases.case_transforms import compose, with_values
from properties.contract import Capability
from properties.families.contract import FORM
from properties.families.parameter_transforms import (
    replace_parameters,
    rotate_within_heads,
    zero_parameters,
)
from properties.families.values import it_equals_the_equation
from properties.harness import tomography
from properties.harness.case_context import CaseContext
from properties.oracle import get_scale
from properties.property import PropertyFamily, PropertyGroup
from properties.violation import Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.SCALE, FORM)
C = Capability
NEEDS = (C.ATTENTION, C.PROJECTED, C.TOKENS)


@family_property(
    *tomography.REQUIRED_CAPABILITIES,
    on=compose(tomography.fit_for_recovery, with_values(sharpness=1)),
    limit=3,
    hint="divide by the square root of the width of one head, keys.shape[-1] ** 0.5",
)
def the_scores_are_divided_by_the_root_of_the_head_size(context: CaseContext) -> None:
    """The scores are multiplied by 1/√head_dim, no other number."""
    recovered = context.compute_once(tomography.recover_weights)
    visible = recovered.expected > 1e-6
    usable = visible & (recovered.weights > 1e-12)
    got, wanted = (
        recovered.weights.clamp_min(1e-300).log(),
        recovered.expected.clamp_min(1e-300).log(),
    )
    # Log-weights relative to their row's mean are the scores relative to theirs.
    got, wanted = _centre_rows(got, usable), _centre_rows(wanted, usable)
    size = float((wanted * wanted).sum())
    if size < 1e-3:
        return
    factor = float((got * wanted).sum()) / size
    if abs(factor - 1) > 1e-4:
        scale = get_scale(context.contract, context.case)
        usual = f"1/√{context.case.head_dim} = " if context.contract.scale is None else ""
        expected = f"scores scaled by {usual}{scale:.4g}"
        raise Violation(ViolationKind.VALUE, expected, f"scaled by {scale * factor:.4g}", "weights")


def _centre_rows(logs: Tensor, usable: Tensor) -> Tensor:
    count = usable.sum(-1, keepdim=True).clamp_min(1)
    kept = torch.where(usable, logs, 0.0)
    return torch.where(usable, kept - kept.sum(-1, keepdim=True) / count, 0.0)


@family_property(*NEEDS, limit=3, hint="the scores are plain dot products of queries and keys")
def larger_queries_and_smaller_keys_cancel(context: CaseContext) -> None:
    """Queries four times as large and keys a quarter as large give the same output."""
    scaled = {
        name: tensor * (4.0 if name[-1] == "q" else 0.25)
        for name, tensor in context.parameters.items()
        if name in ("W_q", "b_q", "W_k", "b_k")
    }
    output = context.run(parameters=replace_parameters(context, **scaled))[0]
    context.assert_unchanged(output, context.output, context.tolerance)


@family_property(*NEEDS, limit=3, hint="the scores are plain dot products of queries and keys")
def rotating_queries_and_keys_together_changes_nothing(context: CaseContext) -> None:
    """Only the angles between queries and keys count: rotating both changes nothing."""
    turned = {
        name: rotate_within_heads(tensor, context.case.heads)
        for name, tensor in context.parameters.items()
        if name in ("W_q", "b_q", "W_k", "b_k")
    }
    context.assert_answer_unchanged(context.run(parameters=replace_parameters(context, **turned)))


@family_property(
    *NEEDS,
    C.STABLE,
    after=(it_equals_the_equation,),
    limit=3,
    on=lambda case: replace(case, dtype="float64"),
    dtypes=("float64",),
    hint="softmax by hand needs the row's maximum subtracted; blocked scores need -inf",
)
def scores_in_the_millions_are_survived(context: CaseContext) -> None:
    """Scores of a few million overflow nothing and still give the right answer."""
    largest = float(context.expected.exact.scores.abs().max()) or 1.0
    factor = 3e6 / largest
    sharp = {
        name: tensor * factor
        for name, tensor in context.parameters.items()
        if name in ("W_q", "b_q")
    }
    parameters = replace_parameters(context, **sharp)
    context.assert_matches_oracle(
        context.run(parameters=parameters), context.compute_expected(parameters=parameters)
    )


@family_property(
    *NEEDS,
    C.STABLE,
    after=(it_equals_the_equation,),
    limit=3,
    on=lambda case: replace(case, dtype="float64", mask_form=MaskForm.NONE),
    dtypes=("float64",),
    hint="all scores equal and very negative: subtract the row's own maximum, not a constant",
)
def a_constant_added_to_the_scores_cancels(context: CaseContext) -> None:
    """Only differences between scores count, however far all of them are from zero."""
    x = context.x.clone()
    x[..., 0] = 1
    far = dict(zero_parameters(context, "W_q"))
    far["W_q"][:, 0] = -1e4
    keys = context.parameters.W_k.clone()
    keys[:, 0] = 100.0
    parameters = replace_parameters(context, W_q=far["W_q"], W_k=keys)
    context.assert_matches_oracle(
        context.run(x, parameters), context.compute_expected(x, parameters)
    )


ALL = (
    the_scores_are_divided_by_the_root_of_the_head_size,
    larger_queries_and_smaller_keys_cancel,
    rotating_queries_and_keys_together_changes_nothing,
    scores_in_the_millions_are_survived,
    a_constant_added_to_the_scores_cancels,
)
