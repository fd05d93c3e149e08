"""The heads work independently, each with its own weights, and are merged in order."""

import functools
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.assertions import assert_other_columns_unchanged
from headcheck.properties.families.contract import AXIS_HINT, FORM
from headcheck.properties.families.parameter_transforms import (
    list_own,
    make_identity_projection,
    permute_heads,
    replace_parameters,
    rotate_within_heads,
    zero_parameters,
)
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.parts import WEIGHTS
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import Case, MaskForm
from headcheck.properties.terms.peculiarity import SINGLE_HEAD, select_plainest

family_property = PropertyFamily(PropertyGroup.HEADS, FORM)
SEVERAL_HEADS = at_least(heads=2, tokens=2)
HINT = "a head has the same block of columns before and after attention"


def share_mask_across_heads(case: Case) -> Case:
    """Let all heads share a mask, so that masks do not distinguish heads."""
    shared = {
        MaskForm.BATCH_HEAD_QUERY_KEY: MaskForm.BATCH_ONE_QUERY_KEY,
        MaskForm.ONE_HEAD_QUERY_KEY: MaskForm.ONE_ONE_QUERY_KEY,
    }
    return replace(case, mask_form=shared.get(case.mask_form, case.mask_form))


@family_property(
    C.HEADS,
    C.ATTENTION,
    on=with_values(heads=1),
    choose=select_plainest,
    about=SINGLE_HEAD,
    hint=AXIS_HINT,
)
def a_single_head_works_like_several(context: CaseContext) -> None:
    """With a single head, all results still have all their axes."""
    context.call()


head_property = functools.partial(
    family_property, C.HEADS, C.MODULE, on=SEVERAL_HEADS, limit=3, hint=HINT
)


@head_property(C.BARE, C.PROJECTED, C.UNBIASED, on=compose(SEVERAL_HEADS, share_mask_across_heads))
def permuting_the_heads_permutes_their_outputs(context: CaseContext) -> None:
    """Exchanging the weights of two heads only exchanges their places in the output."""
    groups = context.case.kv_heads  # heads that share keys stay together
    sizes = context.contract.get_head_sizes(context.case)
    moved = {
        name: permute_heads(tensor, groups)
        for name, tensor in context.parameters.items()
        if name not in ("W_o", "b_o") and WEIGHTS[name].heads(sizes) > 1
    }
    before, tolerance = context.output, context.tolerance
    if context.parameters.W_o is not None:
        # Each head's columns move along, so that the sum over the heads stays the same.
        moved["W_o"] = permute_heads(context.parameters.W_o.mT, groups).mT
    else:
        permute = functools.partial(_permute_output_heads, groups=groups)
        before, tolerance = permute(before), tolerance.map(permute)
    output = context.run(parameters=replace_parameters(context, **moved))[0]
    context.assert_unchanged(output, before, tolerance)


def _permute_output_heads(output: Tensor, groups: int) -> Tensor:
    """Reorder the heads' parts of an output."""
    return permute_heads(output.movedim(-1, 0), groups).movedim(0, -1)


@head_property(C.BARE, C.OUTPUT_PROJECTION)
def the_output_is_the_sum_of_what_the_heads_give(context: CaseContext) -> None:
    """The output is the sum of the outputs that each head would give alone."""
    heads, d = context.case.heads, context.case.head_dim
    assert context.parameters.W_o is not None
    total = torch.zeros_like(context.output)
    for head in range(heads):
        columns, own = torch.zeros_like(context.parameters.W_o), slice(head * d, (head + 1) * d)
        columns[:, own] = context.parameters.W_o[:, own]
        alone = replace_parameters(context, W_o=columns, **zero_parameters(context, "b_o"))
        total = total + context.run(parameters=alone)[0]
    bias = 0 if context.parameters.b_o is None else context.parameters.b_o
    tolerance = context.tolerance
    for _ in range(heads):
        tolerance = tolerance + context.tolerance
    context.assert_unchanged(total + bias, context.output, tolerance)


@head_property(C.BARE, C.PROJECTED, C.PROPORTIONAL, essential=True)
def each_head_fills_only_its_own_part(context: CaseContext) -> None:
    """Changing one head's weights changes only this head's part of the merged output."""
    heads, d = context.case.heads, context.case.head_dim
    identity = make_identity_projection(context)
    base = replace_parameters(context, **identity)
    before = context.run(parameters=base)[0]
    for head in {0, heads - 1}:
        rows = slice(head * d, (head + 1) * d)
        own = ("W_q", "W_k", "W_v") if context.case.kv_heads == heads else ("W_q",)
        changed = {n: getattr(base, n).clone() for n in list_own(context, *own)}
        for tensor in changed.values():
            tensor[rows] *= -2
        parameters = replace_parameters(context, **identity, **changed)
        assert_other_columns_unchanged(context, parameters, before, rows, f"head {head}")


@head_property(C.OUTPUT_PROJECTION, C.UNGATED)
def a_head_s_values_may_be_written_in_another_basis(context: CaseContext) -> None:
    """A change of basis of each head's values, undone in the output layer, changes nothing."""
    width, p = context.case.head_dim, context.parameters
    assert p.W_o is not None
    rotated = rotate_within_heads(p.W_v, width)
    moved = {"W_v": rotated, "W_o": rotate_within_heads(p.W_o.mT, width).mT}
    if p.b_v is not None:
        moved["b_v"] = rotate_within_heads(p.b_v, width)
    context.assert_answer_unchanged(context.run(parameters=replace_parameters(context, **moved)))
