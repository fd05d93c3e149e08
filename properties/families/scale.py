"""The scores are q·k / √head_dim, depend on nothing else, and may be large."""

import functools
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.bounds.oracle import get_scale, get_width
from headcheck.properties.cases.case_transforms import compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.assertions import assert_right_with
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.parameter_transforms import (
    ASKING,
    list_reading_layers,
    pass_first_number_on,
    replace_parameters,
    rotate_within_heads,
    zero_parameters,
)
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness import tomography
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import InputContent, MaskForm
from headcheck.properties.violations.violation import Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.SCALE, FORM)
NEEDS = (C.ATTENTION, C.PROJECTED, C.TOKENS)
NOT_SCALED = "weights that these scores give with no scale"
TOKEN_FACTORS = (2.0**17, 2.0**-17)
UNBENT = 2.0**-8
"""a share of the limit so small that the limit hardly changes such scores"""
BENT = 0.02
"""the relative change that a limit may still cause"""


@family_property(
    *tomography.REQUIRED_CAPABILITIES,
    C.ONE_MAP,
    C.SOFTMAX,
    on=compose(tomography.fit_for_recovery, with_values(sharpness=1)),
    limit=3,
    hint="every score is scaled once, before the softmax",
    essential=True,
)
def the_scores_are_divided_by_the_root_of_the_head_size(context: CaseContext) -> None:
    """The weights come from the right scores, scaled as the statement asks."""
    recovered = context.compute_once(_recover_unlimited)
    usable = (recovered.expected > 1e-6) & (recovered.weights > 1e-12)
    got = _compute_centred_logs(recovered.weights, usable)
    exact = _compute_centred_logs(recovered.expected, usable)
    size = float((exact * exact).sum())
    shrunk = _get_shrinkage(context)
    if size < 1e-3 * shrunk**2:
        return
    factor = float((got * exact).sum()) / size
    if abs(factor - 1) > (1e-4 if shrunk == 1 else BENT):
        scale = get_scale(context.contract, context.case)
        width = get_width(context.contract, context.case)
        usual = f"1/√{width} = " if context.contract.scale is None else ""
        expected = f"scores scaled by {usual}{scale:.4g}"
        explained = (got - factor * exact).abs() <= 1e-3 * (1 + got.abs())
        # Of two tokens every weight is explained by some scale, so no more is said than "as if".
        found = f"as if scaled by {scale * factor:.4g}" if bool(explained.all()) else NOT_SCALED
        raise Violation(ViolationKind.VALUE, expected, found, "weights")


def _recover_unlimited(context: CaseContext) -> tomography.RecoveredWeights:
    return tomography.recover_weights(context, _get_shrinkage(context))


def _get_shrinkage(context: CaseContext) -> float:
    """Return a factor for queries with which a wrong limit is not mistaken for a wrong scale."""
    limit = context.case.softcap
    return min(1.0, limit) * UNBENT if limit else 1.0


def _compute_centred_logs(weights: Tensor, usable: Tensor) -> Tensor:
    """Return log-weights minus their row's mean, which equal scores minus the mean of scores."""
    logs = weights.clamp_min(1e-300).log()
    count = usable.sum(-1, keepdim=True).clamp_min(1)
    kept = torch.where(usable, logs, 0.0)
    return torch.where(usable, kept - kept.sum(-1, keepdim=True) / count, 0.0)


scale_property = functools.partial(family_property, *NEEDS, limit=3)


@scale_property(C.SOFTMAX, C.UNNORMED, hint="the scores are plain dot products of queries and keys")
def larger_queries_and_smaller_keys_cancel(context: CaseContext) -> None:
    """Queries four times as large and keys a quarter as large give the same output."""
    scaled = {
        name: tensor * (4.0 if name in ASKING else 0.25)
        for name, tensor in context.parameters.items()
        if name in ("W_q", "b_q", "W_qr", "W_k", "b_k", "W_kr")
    }
    output = context.run(parameters=replace_parameters(context, **scaled))[0]
    context.assert_unchanged(output, context.output, context.tolerance)


@family_property(
    C.BARE,
    *NEEDS,
    after=(it_equals_the_equation,),
    on=with_values(content=InputContent.NORMAL),
    limit=2,
    hint="does any step, such as a clamp, depend on the size of numbers?",
)
def large_tokens_and_small_weights_cancel(context: CaseContext) -> None:
    """Tokens 100,000 times as large give the same output with weights 100,000 times as small."""
    for factor in TOKEN_FACTORS:
        smaller = {
            name: tensor / factor
            for name, tensor in context.parameters.items()
            if name in list_reading_layers(context)
        }
        assert_right_with(context, replace_parameters(context, **smaller), factor * context.x)


@scale_property(C.DOT_PRODUCT, hint="the scores are plain dot products of queries and keys")
def rotating_queries_and_keys_together_changes_nothing(context: CaseContext) -> None:
    """Rotating all queries and keys together does not change the output."""
    turned = {
        name: rotate_within_heads(tensor, get_width(context.contract, context.case))
        for name, tensor in context.parameters.items()
        if name in ("W_q", "b_q", "W_k", "b_k")
    }
    context.assert_answer_unchanged(context.run(parameters=replace_parameters(context, **turned)))


@scale_property(
    C.STATED,
    C.STABLE,
    after=(it_equals_the_equation,),
    on=lambda case: replace(case, dtype="float64"),
    dtypes=("float64",),
    hint="exponentials overflow; the fill of a mask must be below any score",
)
def scores_in_the_millions_are_survived(context: CaseContext) -> None:
    """Scores of a few million cause no overflow and still give the right output."""
    factor = 3e6 / (float(context.expected.exact.scores.abs().max()) or 1.0)
    queries = {n: t * factor for n, t in context.parameters.items() if n in ("W_q", "b_q", "W_qr")}
    assert_right_with(context, replace_parameters(context, **queries))


@scale_property(
    C.BARE,
    C.STATED,
    C.STABLE,
    C.CONSTANT_SUM,
    C.SOFTMAX,
    after=(it_equals_the_equation,),
    on=lambda case: replace(case, dtype="float64", mask_form=MaskForm.NONE),
    dtypes=("float64",),
    hint="all scores are far below zero here: only differences may matter",
)
def a_constant_added_to_the_scores_cancels(context: CaseContext) -> None:
    """Only differences between scores matter, even if all scores are far from zero."""
    x = context.x.clone()
    x[..., 0] = 1
    queries, keys = torch.zeros_like(context.parameters.W_q), context.parameters.W_k.clone()
    queries[:, 0] = -1e4
    keys[:, 0] = 100.0
    beside = {**pass_first_number_on(context), **zero_parameters(context, "W_qr")}
    changed = replace_parameters(context, W_q=queries, W_k=keys, **beside)
    assert_right_with(context, changed, x)
