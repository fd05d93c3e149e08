"""The output is right: it equals the equation, a second algorithm, and torch's own functions."""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn

from headcheck.properties import comparison
from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.argument import EXTRA_CONFIG
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.cross import keys_and_values_come_from_their_own_tokens
from headcheck.properties.families.parameter_transforms import replace_parameters
from headcheck.properties.families.purity import evaluation_is_repeatable
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import ModuleAdapter, build_module
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions, Value
from headcheck.properties.terms.case import InputContent, MaskForm
from headcheck.properties.violations.violation import Reason, Violation, ViolationKind
from headcheck.reference import Parameters, merge_heads, online_multi_head_attention

family_property = PropertyFamily(PropertyGroup.VALUES, FORM)
MOST = 1 << 10
"""a window or block as long as any sequence in the checks that need every token to be seen"""
PLAIN_SCORES = (C.DOT_PRODUCT, C.UNBIASED, C.BARE)
"""the capabilities for a comparison with algorithms that support neither positions nor limits"""
PLAIN = (*PLAIN_SCORES, C.NORMALISED, C.UNGATED)
"""the capabilities for a comparison with torch's functions, which do not support sinks and gates
either
"""
ATTENDING = compose(
    at_least(tokens=3),
    with_values(
        sharpness=1,
        mask_form=MaskForm.NONE,
        content=InputContent.NORMAL,
        window=MOST,
        block=MOST,
    ),
)


@family_property(
    C.ATTENTION,
    C.TOKENS,
    on=ATTENDING,
    after=(evaluation_is_repeatable,),
    limit=3,
    hint="a token's scores say how much of every other token it receives",
)
def it_attends(context: CaseContext) -> None:
    """A token's output depends on other tokens, with weights that depend on the tokens."""
    _assert_other_tokens_matter(context)
    if not context.contract.has(C.PROJECTED):
        # The one feature of a query is in every product, and in their sum.
        if not (context.contract.has(C.FEATURES) and context.case.head_dim == 1):
            _assert_tokens_differ(context)
        return
    parameters = context.parameters
    changed = replace_parameters(context, W_q=-2 * parameters.W_q, W_k=3 * parameters.W_k)
    moved = context.run(parameters=changed)[0] - context.run(parameters=parameters)[0]
    tolerance = context.tolerance + context.compute_expected(parameters=changed).tolerances[0]
    comparison.assert_differs(moved, tolerance, "other queries and keys give another output")


@family_property(
    C.ATTENTION,
    C.TOKENS,
    C.PROJECTED,
    on=ATTENDING,
    after=(it_attends,),
    limit=3,
    hint="is each of queries, keys and values used on the way to the output?",
)
def the_output_depends_on_queries_keys_and_values(context: CaseContext) -> None:
    """The output depends on the queries, on the keys and on the values of this input."""
    base = context.run(parameters=context.parameters)[0]
    layers = {"W_v": "values", "W_q": "queries", "W_k": "keys"}
    if context.contract.has(C.FEATURES) and context.case.head_dim == 1:
        del layers["W_q"]  # the one feature of a query is in every product, and in their sum
    for name, layer in layers.items():
        change = {name: -2 * getattr(context.parameters, name)}
        changed = replace_parameters(context, **change)
        moved = context.run(parameters=changed)[0] - base
        tolerance = context.tolerance + context.compute_expected(parameters=changed).tolerances[0]
        comparison.assert_differs(moved, tolerance, f"other {layer} give another output")


def _assert_other_tokens_matter(context: CaseContext) -> None:
    """Change the first token, then the last, because a mask may hide one of them or all others."""
    # Small tokens have nearly equal weights, so that none is negligible.
    before = 0.1 * context.x
    output, tolerance = context.run(before)[0], context.compute_expected(before).tolerances[0]
    moved = []
    for token in (0, -1):
        after = before.clone()
        after[:, token] = -2 * after[:, token]
        moved.append(context.run(after)[0] - output)
        tolerance = tolerance + context.compute_expected(after).tolerances[0]
    by_first, by_last = moved
    by_another = torch.cat([by_last[:, :1], by_first[:, 1:]], dim=1)
    comparison.assert_differs(by_another, tolerance, "another token changes what a token receives")


def _assert_tokens_differ(context: CaseContext) -> None:
    """Raise Violation if all outputs are equal; without layers, weights depend on the tokens."""
    tolerance = context.tolerance[:, -1] + context.tolerance[:, 0]
    difference = context.output[:, -1] - context.output[:, 0]
    expected = "tokens that differ receive different outputs"
    comparison.assert_differs(difference, tolerance, expected)


@family_property(
    after=(keys_and_values_come_from_their_own_tokens,),
    hint="compute a small case by hand and compare each step with your code",
    essential=True,
    usual=24,
)
def it_equals_the_equation(context: CaseContext) -> None:
    """The output equals the equation, computed in float64."""
    context.assert_matches_oracle(context.answer, context.expected)


@family_property(
    on=with_values(dtype="float32", content=InputContent.NORMAL),
    after=(it_equals_the_equation,),
    limit=4,
    dtypes=("float32",),
    hint="is some number so large that float32 loses others beside it?",
    essential=True,
)
def float32_gives_the_equation_too(context: CaseContext) -> None:
    """In float32, torch's default dtype, the output is right to at least three digits."""
    # That it has all digits of float32, of outliers, too, is another claim: here those of float16
    # are enough.
    context.assert_matches_oracle(context.answer, context.compute_expected_in_half())


CORRECT_VALUES = (it_equals_the_equation,)
GUARDS_THE_ORACLE = "compares with an answer computed otherwise, and so guards the oracle itself"


@family_property(
    C.MODULE,
    C.STATED,
    on=with_values(dropout=0.0),
    after=(evaluation_is_repeatable,),
    limit=1,
    hint="does the code drop or change anything that nobody asked for?",
)
def no_dropout_means_no_difference(context: LiveContext) -> None:
    """Without dropout, training gives the output of evaluation and draws no random numbers."""
    context.assert_answer_unchanged(context.run_module(options=CallOptions(training=True, seed=1)))
    if context.contract.has(C.DROPOUT):
        return  # a rate of zero may be drawn, too
    if context.call_module(options=CallOptions(training=True)).random_state_moved:
        expected = "the state of torch's random numbers as it was before a call in training"
        reason = Reason.RANDOM_STATE_MOVED
        raise Violation(ViolationKind.VALUE, expected, "it has changed", reason=reason)


@family_property(
    C.ATTENTION,
    C.TOKENS,
    C.OWN_KEYS,
    *PLAIN_SCORES,
    C.PROPORTIONAL,
    after=CORRECT_VALUES,
    redundant_because=GUARDS_THE_ORACLE,
)
def it_equals_the_streaming_computation(context: CaseContext) -> None:
    """The output equals attention computed one key at a time (online softmax)."""
    visible = context.may_attend(context.case.tokens, context.mask)
    streamed = online_multi_head_attention(
        context.x, _fold_into_layers(context), context.case.heads, visible, block=1
    )
    context.assert_close(context.output, streamed, context.tolerance)


def _fold_into_layers(context: CaseContext) -> Parameters:
    """Return plain parameters that give the contract's scores with a scale of 1/√head_dim.

    The layer of latents, if there are any, becomes a part of the layers of keys and values.
    """
    p, own = context.parameters, context.contract.scale
    if p.W_down is not None:
        p = replace(p, W_k=p.W_k @ p.W_down, W_v=p.W_v @ p.W_down, W_down=None)
    factor = 1.0 if own is None else own * math.sqrt(context.case.head_dim)
    queries = {n: factor * t for n, t in p.items() if n[-1] == "q"} if own is not None else {}
    return replace(p, **queries)


@family_property(
    C.ATTENTION, C.TOKENS, *PLAIN, after=CORRECT_VALUES, redundant_because=GUARDS_THE_ORACLE
)
def it_equals_torch_s_attention(context: CaseContext) -> None:
    """The output equals the output of torch.nn.functional.scaled_dot_product_attention."""
    exact = context.expected.exact
    visible = context.may_attend(context.case.tokens, context.mask)
    scale = get_scale(context.contract, context.case)
    attended = F.scaled_dot_product_attention(
        exact.query, exact.key, exact.value, attn_mask=visible, scale=scale
    )
    output, p = merge_heads(attended), context.parameters
    if p.W_o is not None:
        output = F.linear(output, p.W_o, p.b_o)
    context.assert_close(context.output, output, context.tolerance)


@family_property(
    C.OUTPUT_PROJECTION,
    C.MODULE,
    C.OWN_KEYS,
    *PLAIN,
    after=CORRECT_VALUES,
    limit=4,
    on=lambda case: replace(case, d_in=case.d_out),
    redundant_because=GUARDS_THE_ORACLE,
)
def it_equals_torch_s_multi_head_attention(context: CaseContext) -> None:
    """With the same weights the output equals the output of torch.nn.MultiheadAttention."""
    parameters, case = _fold_into_layers(context), context.case
    theirs = _build_torch_module(parameters, case.d_out, case.heads)
    visible = context.may_attend(case.tokens, context.mask)
    with torch.no_grad():
        blocked = None
        if visible is not None:
            b, h, t = context.x.shape[0], case.heads, case.tokens
            blocked = ~visible.expand(b, h, t, t).flatten(0, 1)
        output = theirs(context.x, context.x, context.x, attn_mask=blocked, need_weights=False)[0]
    context.assert_close(context.output, output, context.tolerance)


def _build_torch_module(parameters: Parameters, width: int, heads: int) -> nn.MultiheadAttention:
    p = parameters
    theirs = nn.MultiheadAttention(width, heads, batch_first=True, dtype=torch.float64)
    zero = torch.zeros(width, dtype=torch.float64)
    state = {
        "in_proj_weight": torch.cat([p.W_q, p.W_k, p.W_v]),
        "in_proj_bias": torch.cat([zero if b is None else b for b in (p.b_q, p.b_k, p.b_v)]),
        "out_proj.weight": torch.eye(width) if p.W_o is None else p.W_o,
        "out_proj.bias": zero if p.b_o is None else p.b_o,
    }
    theirs.load_state_dict(state)
    return theirs.eval()


def _raise_rates(value: Value) -> Value:
    """Return a config with each rate of dropout that it holds raised to a half."""
    if not isinstance(value, dict):
        return value
    return {k: 0.5 if EXTRA_CONFIG.get(k) == 0.0 else each for k, each in value.items()}


@family_property(
    C.CONFIG,
    C.MODULE,
    after=(it_equals_the_equation,),
    limit=1,
    on=at_least(tokens=3),
    dtypes=("float64",),
    hint="functions, unlike nn.Dropout, do not know training and evaluation",
)
def evaluation_ignores_a_rate_in_the_config(context: LiveContext) -> None:
    """In evaluation, a rate of dropout in the config changes nothing."""
    contract, case, subject = context.contract, context.case, context.harness.subject
    arguments = {a.name: _raise_rates(a.get_value(case)) for a in contract.arguments}
    built = build_module(subject, contract, case, arguments, case.seed)
    adapter = ModuleAdapter(contract, case, built, built, subject)
    context.assert_answer_unchanged(context.run_module(options=CallOptions(), adapter=adapter))
