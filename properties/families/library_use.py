"""The module works as libraries use it: functional_call, vmap, autocast, gradients of any layout.

The gradient from a sum is one number, expanded; the gradient from a transposing layer is
transposed. Some kernels read both as if they were contiguous, or did so only for wide heads and
many sequences (Dao-AILab/flash-attention#355, #2541).

No exercise requires these properties, so they affect no grade. The pytest plugin checks them on
modules that are published.
"""

from dataclasses import replace

import torch

from headcheck.properties.bounds.oracle import Expected
from headcheck.properties.cases.case_tensors import make_tokens
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.batch import the_memory_layout_does_not_matter
from headcheck.properties.families.contract import FORM, the_weights_are_registered_and_trainable
from headcheck.properties.families.gradients import (
    assert_close_to_exact,
    gradients_are_right_at_every_size,
)
from headcheck.properties.families.precision import bfloat16_runs
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import construct
from headcheck.properties.harness.steps import build_fresh_module
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallResult

family_property = PropertyFamily(PropertyGroup.PURITY, (*FORM, it_equals_the_equation))
gradient_property = PropertyFamily(PropertyGroup.GRADIENTS, FORM)
SIZES = (
    {"batch": 2, "tokens": 5, "d_in": 3, "heads": 2, "head_dim": 2, "sharpness": 2},
    {"batch": 9, "tokens": 5, "d_in": 6, "heads": 2, "head_dim": 64, "sharpness": 2},
)
LAYOUTS = ("transposed", "sliced", "expanded")


@family_property(
    C.MODULE,
    C.INITIALISED,
    C.PROJECTED,
    after=(the_weights_are_registered_and_trainable,),
    limit=3,
    on=at_least(tokens=3),
    hint="the weights may be set for one call only: read them in each call",
)
def it_takes_weights_from_outside(context: LiveContext) -> None:
    """torch.func.functional_call makes it compute with given weights, and it keeps its own."""
    adapter = build_fresh_module(context)
    other = context.other_parameters
    got = adapter.call_within("functional_call", context.x, context.mask, other)
    context.check_form(got, context.x)
    _assert_right(context, got, context.compute_expected(parameters=other))
    context.assert_answer_unchanged(context.run_module(adapter=adapter))


@family_property(
    C.MODULE,
    C.BATCH,
    limit=3,
    on=at_least(tokens=3),
    hint="under vmap neither .item() nor `if` on a tensor's values can work",
)
def it_can_be_mapped_over_an_axis(context: LiveContext) -> None:
    """Under torch.func.vmap each item of the additional axis gives the same output as alone."""
    inputs = context.x, make_tokens(context.case, context.contract, "x2")
    mask = None if context.mask is None else torch.stack([context.mask] * len(inputs))
    adapter = build_fresh_module(context)
    mapped = adapter.call_within("vmap", torch.stack(inputs), mask, context.parameters)
    for number, x in enumerate(inputs):
        got = replace(mapped, outputs=tuple(output[number] for output in mapped.outputs))
        context.check_form(got, x)
        _assert_right(context, got, context.compute_expected(x))


@family_property(
    C.MODULE,
    limit=3,
    after=(bfloat16_runs,),
    on=compose(at_least(tokens=3), with_values(dtype="bfloat16")),
    dtypes=("bfloat16",),
    hint="under autocast layers answer in bfloat16, though x is float32",
)
def it_runs_under_autocast(context: LiveContext) -> None:
    """Under torch.autocast, with float32 weights, it is as exact as in bfloat16."""
    contract, case = context.contract, replace(context.case, dtype="float32")
    adapter = construct(context.harness.subject, contract, case)
    adapter.set(context.parameters)
    got = adapter.call_within("autocast", context.x, context.mask, context.parameters)
    context.check_form(got, context.x)
    _assert_right(context, got, context.expected)


@gradient_property(
    C.PROJECTED,
    C.TOKENS,
    C.MODULE,
    C.STRIDED,
    after=(gradients_are_right_at_every_size, the_memory_layout_does_not_matter),
    sizes=SIZES,
    hint="are numbers read in another order than the one in memory?",
)
def gradients_are_right_in_every_layout(context: LiveContext) -> None:
    """Inputs and incoming gradients may have any memory layout, and heads may be wide."""
    cotangent = context.cotangent[:1].expand_as(context.cotangent).clone()
    exact = context.compute_exact_gradients(cotangent)
    context.adapter.set(context.parameters)
    for memory in LAYOUTS:
        own = context.adapter.vjp(context.x, cotangent, context.mask, memory=memory)
        assert_close_to_exact(context, own, exact, exact.values)


def _assert_right(context: LiveContext, got: CallResult, expected: Expected) -> None:
    context.assert_matches_oracle(tuple(output.double() for output in got.outputs), expected)
