"""Positions and windows in bfloat16, which counts to 256.

The properties are checked after those of precision: an answer that does not run in bfloat16 is told
just that.
"""

import functools

import torch
from torch import Tensor

from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.decoding import one_token_at_a_time_gives_the_same_output
from headcheck.properties.families.parameter_transforms import (
    ASKING,
    make_identity_projection,
    replace_parameters,
    zero_parameters,
)
from headcheck.properties.families.precision import (
    bfloat16_is_as_exact_as_plain_torch,
    bfloat16_runs,
)
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.steps import build_fresh_module
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import Chunk
from headcheck.properties.violations.violation import Violation, ViolationKind
from headcheck.reference import Parameters

precision = PropertyFamily(PropertyGroup.PRECISION, FORM)
caching = PropertyFamily(PropertyGroup.CACHE, FORM)
LONG_IN_HALF = {"batch": 1, "tokens": 262, "d_in": 2, "heads": 8, "head_dim": 2}
"""a case with more tokens than bfloat16 can count: 257 is 256 there, and both 259 and 261 are
260"""
LONG_WINDOW = {"batch": 1, "tokens": 262, "d_in": 4, "heads": 1, "head_dim": 4, "window": 257}
LONG_AND_SHARP = {"batch": 1, "tokens": 262, "d_in": 4, "heads": 1, "head_dim": 4, "sharpness": 2}
LARGE_VALUE = 1024.0
SCORES_IN_HALF = (0, 12)
"""products with a key at distance zero; if all are 0, only the bias of the distance remains"""


half_property = functools.partial(precision, C.TOKENS, C.WIDTHS, dtypes=("bfloat16",))


@half_property(
    C.STATED,
    C.POSITIONS,
    sizes=(LONG_IN_HALF,),
    on=compose(at_least(tokens=3, d_in=2), with_values(dtype="bfloat16")),
    after=(it_equals_the_equation, bfloat16_runs),
    hint="bfloat16 counts to 256: the next whole number after it is 258",
)
def bfloat16_tells_positions_apart(context: CaseContext) -> None:
    """Given bfloat16, positions beyond 256 are still distinguished."""
    x = _mark_one_token(context)
    for score in SCORES_IN_HALF:
        parameters = _make_single_key(context, score)
        expected = context.compute_expected(x, parameters)
        context.assert_matches_oracle(context.run(x, parameters), expected)


def _mark_one_token(context: CaseContext) -> Tensor:
    """Return tokens of which one, the third from the end, differs from the others."""
    x = torch.zeros_like(context.x)
    x[..., 0] = 1
    x[..., context.case.tokens - 3, 1] = 1
    return x


def _make_single_key(context: CaseContext, score: float) -> Parameters:
    """Return parameters with which all queries match the tokens whose second number is 1."""
    zeros = zero_parameters(context, *ASKING, "W_k", "W_v", "b_k", "b_v", "W_kr", "W_down")
    mark = 1
    if context.contract.has(C.LATENT):  # the first number of a latent is the mark
        zeros["W_down"][0, 1], mark = 1, 0
    zeros["W_v"][:, mark] = 1
    if context.contract.has(C.BESIDE):  # what is turned stands beside heads
        zeros["W_qr"][:: context.case.rope_dim, 0] = score
        zeros["W_kr"][0, 1] = 1
    else:
        zeros["W_q"][:: context.case.head_dim, 0] = score
        zeros["W_k"][:: context.case.head_dim, mark] = 1
    return replace_parameters(context, **zeros, **make_identity_projection(context))


@caching(
    C.STATED,
    C.POSITIONS,
    C.CACHE,
    C.HALF,
    C.WIDTHS,
    sizes=(LONG_IN_HALF,),
    on=compose(at_least(tokens=6, d_in=2), with_values(dtype="bfloat16")),
    after=(bfloat16_tells_positions_apart, one_token_at_a_time_gives_the_same_output),
    dtypes=("bfloat16",),
    hint="bfloat16 counts to 256: are earlier tokens counted in it?",
)
def bfloat16_goes_on_where_the_last_call_ended(context: LiveContext) -> None:
    """Given bfloat16 and a cache, positions beyond 256 are still distinguished."""
    x = _mark_one_token(context)
    parameters = _make_single_key(context, max(SCORES_IN_HALF))
    adapter = build_fresh_module(context)
    adapter.set(parameters)
    first, other, last = x.split([context.case.tokens - 5, 3, 2], dim=1)
    results = adapter.decode([Chunk(first, None), Chunk(other, 0), Chunk(last, 1)])
    # The next token has a score between those of its neighbours: one position more or less makes
    # its weight several times as large or small, and rounding in bfloat16 a twentieth.
    got = results[-1].outputs[0][:, :1].double()
    exact = context.compute_expected(x, parameters).outputs[0][:, -2:-1]
    what = "output of the last token but one, in a third call"
    context.assert_close(got, exact, Tolerance(exact.abs() / 2, exact.abs() / 2), what)


@half_property(
    C.STATED,
    C.WINDOW,
    C.CAUSAL,
    C.HALF,
    C.PROJECTED,
    sizes=(LONG_WINDOW,),
    on=with_values(dtype="bfloat16"),
    after=(it_equals_the_equation, bfloat16_runs),
    hint="bfloat16 counts to 256: are distances compared in it?",
)
def bfloat16_ends_a_window_where_it_ends(context: CaseContext) -> None:
    """Given bfloat16, a window beyond 256 tokens still ends at the right token."""
    zeros = zero_parameters(context, *ASKING)
    parameters = replace_parameters(context, **zeros)  # all that is seen counts the same
    pair = []
    for size in (LARGE_VALUE, -LARGE_VALUE):
        x = context.x.clone()
        x[:, 0] = size
        pair.append((context.run(x, parameters)[0], context.compute_expected(x, parameters)))
    (one, exact), (other, exact_other) = pair
    own = (one - other).norm(dim=-1)
    right = (exact.outputs[0] - exact_other.outputs[0]).norm(dim=-1)
    for row in range(context.case.tokens):
        sees, must = (float(t[0, row]) > float(right[0].max()) / 1000 for t in (own, right))
        if sees is not must:
            words = {True: "it sees token 0", False: "it does not see token 0"}
            where = f"output[0, {row}], with a window of {context.case.window}"
            raise Violation(ViolationKind.VALUE, words[must], words[sees], where)


@half_property(
    C.HALF,
    C.CAUSAL,
    sizes=(LONG_AND_SHARP,),
    on=compose(at_least(tokens=4), with_values(dtype="bfloat16")),
    after=(bfloat16_is_as_exact_as_plain_torch,),
    hint="bfloat16 has 8 bits: are positions counted in it?",
)
def bfloat16_hides_the_future_of_long_sequences(context: CaseContext) -> None:
    """Given bfloat16, later tokens stay invisible in sequences of more than 256 tokens."""
    for start in (context.case.tokens - 5, context.case.tokens - 1):
        # One of the signs makes the score of whoever sees the change large.
        for factor in (-64, 64):
            changed = context.x.clone()
            changed[:, start:] *= factor
            output = context.run(changed)[0]
            what = f"output after a change of token {start} and all later ones"
            tolerance = context.tolerance[:, :start]
            context.assert_unchanged(output[:, :start], context.output[:, :start], tolerance, what)
