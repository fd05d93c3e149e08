"""The output is right at every size: at small sizes, and where real code changes its path.

A mistake may show at one size only: an odd width, the seventeenth head, a block of 128 tokens that
is not full. So the sizes in this file are designed instead of taken from the case set. Each size is
checked with a few calls, since the cost of a large case is mostly arithmetic, and the cost of a
small case is mostly the call itself. All sizes together have half a million scores, so that two
nested Python loops take some seconds. The longest sequences are not included in this number; such
loops need not finish them.

The small sizes were chosen so that as many pairs of sizes and equal sizes as possible occur in few
modules and calls; then come some longer sequences and larger batches. In a simulation of faults
that show in one of a hundred small cases, under one to three random conditions, the small sizes and
all other cases find nine in ten faults (`benchmarks/small_sizes.py`). A search finds the others
(`properties/cases/search_cases.py`). The large sizes are at and beside the powers of two at which
kernels are cut into blocks (64, 128, 256, 1,024; adding 2,048 would take a third of the time of all
other checks), at the widths of models (64, 80, 96, 128, 256), and above 2¹⁶ scores in a call.
"""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import replace

import torch

from headcheck.properties import comparison
from headcheck.properties.cases.case_tensors import make_tokens
from headcheck.properties.cases.case_transforms import at_least, compose
from headcheck.properties.cases.fitting_mask import make_fitting_mask
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.counting import count
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.history import earlier_calls_do_not_matter
from headcheck.properties.families.purity import the_input_is_left_unchanged
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.steps import build_fresh_module, fit_for_histories
from headcheck.properties.property import PropertyFamily, PropertyGroup, Sizes
from headcheck.properties.subject import Pass
from headcheck.properties.terms.case import MemoryLayout

family_property = PropertyFamily(PropertyGroup.VALUES, FORM)
PLAIN = {"sharpness": 2, "bias": True, "dropout": 0.0}
SLICED = {**PLAIN, "memory": MemoryLayout.SLICED}
ONE_MODULE = {"batch": 1, "heads": 1, "d_in": 3, "head_dim": 2, "context_length": 64}
LENGTHS = (14, 15, 16, 17, 20, 24, 28, 31, 32, 33, 40, 48, 56, 63, 64)
BATCHES = (7, 8, 9, 10, 12, 15, 16, 17, 20, 24, 31, 32, 33)
# As `python -m benchmarks.small_sizes` chose them.
MODULES = (
    # heads, width of a head, d_in, context length, and length and batch of each call
    (5, 5, 5, 5, ((5, 5), (2, 2), (4, 4))),
    (6, 9, 14, 9, ((3, 9), (9, 4), (6, 6))),
    (2, 1, 2, 2, ((2, 2), (1, 3), (2, 1))),
    (7, 8, 7, 7, ((4, 2), (2, 12), (7, 1))),
    (4, 4, 4, 4, ((4, 4), (3, 10), (1, 12))),
    (8, 4, 8, 8, ((8, 8), (6, 1), (4, 3))),
    (1, 3, 3, 3, ((3, 3), (1, 8), (2, 7))),
    (1, 16, 1, 7, ((7, 7), (4, 6), (2, 8))),
    (6, 6, 6, 6, ((6, 6), (4, 11), (2, 9))),
    (1, 19, 19, 4, ((4, 4), (1, 5), (3, 6))),
    (2, 2, 2, 1, ((1, 2), (1, 4), (1, 7))),
    (5, 12, 12, 12, ((12, 12), (11, 5), (5, 7))),
    (3, 3, 9, 3, ((3, 3), (1, 9), (2, 4))),
    (1, 17, 17, 12, ((12, 12), (3, 4), (10, 3))),
    (7, 1, 19, 7, ((7, 8), (7, 7), (6, 4))),
    (8, 7, 8, 7, ((7, 8), (1, 7), (5, 5))),
    (3, 7, 7, 7, ((7, 7), (3, 1), (5, 3))),
    (1, 11, 11, 2, ((2, 11), (1, 2), (1, 10))),
    (7, 7, 7, 11, ((11, 11), (7, 7), (10, 10))),
    (5, 11, 11, 8, ((5, 11), (8, 8), (6, 5))),
    (1, 5, 5, 5, ((5, 5), (4, 10), (1, 6))),
    (4, 13, 13, 4, ((4, 4), (3, 7), (2, 3))),
    (1, 12, 15, 12, ((12, 12), (10, 11), (9, 9))),
    (9, 6, 9, 10, ((9, 10), (6, 9), (10, 7))),
    (4, 2, 8, 8, ((8, 8), (2, 2), (4, 12))),
    (3, 3, 3, 9, ((9, 2), (6, 8), (5, 10))),
    (6, 10, 10, 10, ((10, 10), (9, 6), (6, 2))),
    (12, 1, 1, 12, ((12, 12), (10, 2), (8, 1))),
    (6, 1, 6, 13, ((13, 6), (6, 10), (12, 12))),
    (4, 1, 1, 3, ((3, 3), (2, 5), (1, 11))),
    (1, 20, 20, 11, ((11, 11), (8, 4), (7, 2))),
    (1, 8, 13, 8, ((8, 8), (7, 4), (5, 6))),
    (1, 4, 4, 4, ((4, 9), (2, 1), (4, 4))),
    (5, 1, 9, 9, ((5, 1), (9, 11), (8, 5))),
    (1, 7, 7, 9, ((9, 7), (7, 9), (6, 6))),
    (1, 13, 17, 13, ((13, 1), (8, 8), (5, 2))),
    (1, 6, 6, 6, ((3, 2), (5, 4), (1, 1))),
    (3, 1, 3, 8, ((3, 11), (8, 3), (4, 5))),
    (1, 2, 16, 2, ((2, 2), (2, 11), (2, 6))),
    (13, 1, 18, 13, ((13, 9), (11, 11), (9, 5))),
)


def list_small_sizes() -> Iterator[Sizes]:
    """List the small sizes, and for one module some longer sequences and larger batches."""
    for heads, head_dim, d_in, context_length, calls in MODULES:
        module = {"heads": heads, "head_dim": head_dim, "d_in": d_in}
        for tokens, batch in calls:
            call = {"context_length": context_length, "tokens": tokens, "batch": batch}
            yield {**PLAIN, **module, **call}
    yield from ({**PLAIN, **ONE_MODULE, "tokens": tokens} for tokens in LENGTHS)
    yield from ({**PLAIN, **ONE_MODULE, "tokens": 2, "batch": batch} for batch in BATCHES)


LONG: tuple[Sizes, ...] = tuple(
    {**PLAIN, "batch": 1, "heads": 1, "d_in": 3, "head_dim": 2, **sizes}
    for sizes in ({"tokens": 160}, {"tokens": 257}, {"tokens": 130, "head_dim": 83})
)
VERY_LONG: tuple[Sizes, ...] = ({**LONG[0], "tokens": 1025, "dtype": "float32"},)
MANY: tuple[Sizes, ...] = tuple(
    {**PLAIN, "tokens": 3, "d_in": 5, "head_dim": 2, "batch": 1, **sizes}
    for sizes in (
        {"heads": 12, "head_dim": 7, "batch": 9},
        {"heads": 17, "batch": 65},
        {"heads": 33, "head_dim": 3},
        {"heads": 64, "head_dim": 1},
        {"heads": 1, "batch": 33, "tokens": 17},
        {"heads": 1, "batch": 130},
        {"heads": 19, "batch": 29, "tokens": 4},
        # Wide heads of many sequences, out of a wider tensor: some kernels fail on all three.
        {**SLICED, "tokens": 5, "d_in": 9, "heads": 2, "batch": 9, "head_dim": 64},
        {**SLICED, "tokens": 5, "d_in": 9, "heads": 1, "batch": 10, "head_dim": 256},
    )
)
WIDE: tuple[Sizes, ...] = (
    *(
        {**PLAIN, "tokens": 5, "d_in": 9, "heads": 1, "batch": 2, "head_dim": width}
        for width in (32, 64, 65, 80, 96, 127, 128, 256)
    ),
    {**PLAIN, "tokens": 3, "d_in": 300, "heads": 2, "batch": 1, "head_dim": 8},
)
"""Wide sizes, which are tried first. Cases of long sequences and many heads are also wide, so if
the wide sizes pass, width is not to blame."""
LARGEST_LENGTH = 6
SIZE_HINT = "does something in the code work for small sizes only?"


size_property = functools.partial(family_property, C.WIDTHS, hint=SIZE_HINT)


@size_property(sizes=list_small_sizes, after=(it_equals_the_equation,), usual=6)
def every_size_is_right(context: CaseContext) -> None:
    """Every number of tokens, sequences, heads and dimensions gives the right output."""
    context.assert_matches_oracle(context.answer, context.expected)


@size_property(sizes=WIDE, after=(it_equals_the_equation,), usual=2)
def wide_heads_are_right_too(context: CaseContext) -> None:
    """The output is right for heads and inputs of tens and hundreds of dimensions, too."""
    context.assert_matches_oracle(context.answer, context.expected)


@size_property(C.BATCH, sizes=MANY, after=(wide_heads_are_right_too,), usual=2)
def many_heads_are_right_too(context: CaseContext) -> None:
    """The output is right for many heads, and for many sequences in a batch, too."""
    context.assert_matches_oracle(context.answer, context.expected)


@size_property(sizes=LONG, after=(wide_heads_are_right_too,), usual=1)
def a_long_sequence_is_right_too(context: CaseContext) -> None:
    """The output is right for hundreds of tokens, too."""
    context.assert_matches_oracle(context.answer, context.expected)


@size_property(sizes=VERY_LONG, after=(a_long_sequence_is_right_too,), usual=0)
def a_thousand_tokens_are_right_too(context: CaseContext) -> None:
    """The output is right for a thousand tokens and more, if it computes them in time."""
    context.assert_matches_oracle(context.answer, context.expected)


@family_property(
    C.WIDTHS,
    C.MODULE,
    C.TOKENS,
    C.ANY_LENGTH,
    after=(it_equals_the_equation, earlier_calls_do_not_matter, the_input_is_left_unchanged),
    limit=1,
    on=compose(fit_for_histories, at_least(tokens=LARGEST_LENGTH)),
    dtypes=("float64",),
    hint="is something kept that is as long as the last input?",
    usual=0,
)
def every_length_may_follow_every_other(context: LiveContext) -> None:
    """The output for a sequence does not depend on the length of the sequence before it."""
    adapter, lengths = build_fresh_module(context), range(1, LARGEST_LENGTH + 1)
    others = [replace(context.case, tokens=t, seed=context.case.seed + t) for t in lengths]
    contract = context.contract
    inputs = [(make_tokens(e, contract), make_fitting_mask(contract, e)) for e in others]
    passes = [
        Pass(inputs=t - 1, training=False, grad="no_grad") for t in order_lengths(LARGEST_LENGTH)
    ]
    results = adapter.run_series(inputs, [torch.ones(1) for _ in inputs], passes)
    exact = [context.compute_expected(x, mask=mask) for x, mask in inputs]
    for before, (step, result) in itertools.pairwise(zip(passes, results, strict=True)):
        expected, t = exact[step.inputs], step.inputs + 1
        what = f"output for {count(t, 'token')}, after a call with {before[0].inputs + 1}"
        comparison.assert_shape(result.output, tuple(expected.outputs[0].shape), what)
        context.assert_close(
            result.output.double(), expected.outputs[0], expected.tolerances[0], what
        )


def order_lengths(largest: int) -> list[int]:
    """Order lengths so that each length follows every length, including itself."""
    left = {start: list(range(1, largest + 1)) for start in range(1, largest + 1)}
    path, circuit = [1], list[int]()
    while path:
        if left[path[-1]]:
            path.append(left[path[-1]].pop())
        else:
            circuit.append(path.pop())
    return circuit
