"""Linear attention: weights from products of positive features, and a state of running sums.

Without a softmax, sums over keys and values can be computed before the query is known: the cost is
linear in the number of tokens, and the state of a sequence has a constant size. Weights are
positive and sum to one, like those of a softmax, so properties that need only this apply to both.

Source: Katharopoulos et al. 2020, "Transformers are RNNs" (arXiv:2006.16236).
"""

import functools

from headcheck.properties.cases.case_tensors import make_tokens
from headcheck.properties.cases.case_transforms import with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.assertions import assert_fewer_numbers, assert_right_with
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.parameter_transforms import (
    project_output,
    replace_parameters,
    zero_parameters,
)
from headcheck.properties.families.values import GUARDS_THE_ORACLE, it_equals_the_equation
from headcheck.properties.harness import tomography
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions, Chunk
from headcheck.properties.terms.case import InputContent, MaskForm
from headcheck.properties.violations.violation import Violation, ViolationKind
from headcheck.reference import recurrent_attention

values = PropertyFamily(PropertyGroup.VALUES, FORM)
weights = PropertyFamily(PropertyGroup.WEIGHTS, FORM)
purity = PropertyFamily(PropertyGroup.PURITY, FORM)
NEEDS = (C.FEATURES, C.PROJECTED, C.TOKENS)
CORRECT = (it_equals_the_equation,)
FEATURE_HINT = "features of queries and keys, multiplied, and divided by a sum"
FAR = 8.0
"""a number x such that features at -x are so small that their product is about a millionth"""
CALLS = 6
TOKENS = 512
"""a number of tokens so large that its square exceeds every count that is linear in it"""
LONG = with_values(
    batch=1, tokens=TOKENS, context_length=TOKENS, d_in=2, heads=1, head_dim=2, dtype="float64"
)


@values(
    *NEEDS,
    C.CAUSAL,
    after=CORRECT,
    on=with_values(mask_form=MaskForm.NONE),
    redundant_because=GUARDS_THE_ORACLE,
)
def it_equals_the_recurrence(context: CaseContext) -> None:
    """The output equals the result of two running sums, taken one token after the other."""
    exact = context.expected.exact
    asked = recurrent_attention(exact.query, exact.key, exact.value)
    output = project_output(context, context.parameters, asked, context.x)
    context.assert_close(context.output, output, context.tolerance)


@weights(*NEEDS, on=tomography.fit_for_recovery, limit=3, hint=FEATURE_HINT, essential=True)
def the_weights_are_shares_of_products_of_features(context: CaseContext) -> None:
    """The weights are products of features of queries and keys, divided by their sum."""
    recovered = context.compute_once(tomography.recover_weights)
    context.assert_close(recovered.weights, recovered.expected, recovered.tolerance, "weights")


@weights(*NEEDS, limit=3, hint="which features have queries and keys that are zero?")
def without_queries_and_keys_the_values_are_averaged_evenly(context: CaseContext) -> None:
    """When all queries and keys are zero, every visible token counts the same."""
    layers = zero_parameters(context, "W_q", "b_q", "W_k", "b_k")
    assert_right_with(context, replace_parameters(context, **layers))


@weights(
    *NEEDS,
    after=CORRECT,
    on=with_values(content=InputContent.NORMAL),
    limit=2,
    hint="what is added to features, or to the sum that divides them?",
)
def features_near_zero_are_shared_rightly(context: CaseContext) -> None:
    """Features near zero count like others: nothing is added to them, or to their sum."""
    x, layers = context.x.clone(), zero_parameters(context, "b_q", "b_k")
    x[..., 0] = 1
    for name in ("W_q", "W_k"):
        layers[name] = getattr(context.parameters, name) / 4
        layers[name][:, 0] = -FAR
    parameters = replace_parameters(context, **layers)
    expected = context.compute_expected(x, parameters)
    context.assert_close(context.run(x, parameters)[0], expected.outputs[0], expected.tolerances[0])


memory_property = functools.partial(
    purity, *NEEDS, on=LONG, after=CORRECT, limit=1, dtypes=("float64",), essential=True
)


@memory_property(
    C.CAUSAL,
    C.LINEAR_MEMORY,
    hint="which tensors have an axis for all queries and one for all keys?",
)
def it_never_holds_a_matrix_of_tokens(context: LiveContext) -> None:
    """With many tokens, it never holds as many numbers as there are pairs of tokens."""
    held = context.call_module(options=CallOptions(counted=True)).held
    assert_fewer_numbers(held, TOKENS**2, f"{TOKENS} tokens in one call")


@memory_property(C.CACHE, hint="which sums are enough to continue after any tokens?")
def a_state_has_the_same_size_after_many_tokens(context: LiveContext) -> None:
    """A state has the same size after any number of tokens, and continuing it takes few numbers."""
    x = make_tokens(context.case, context.contract)
    single = [Chunk(x[:, n : n + 1], n - 1 if n else None) for n in range(CALLS)]
    kept = [result.kept for result in context.adapter.decode(single, counted=True)]
    if kept[-1] > kept[0]:
        expected, got = f"{kept[0]} numbers, as after one call", f"{kept[-1]}"
        raise Violation(ViolationKind.VALUE, expected, got, f"the state after {CALLS} calls")
    chunks = [Chunk(x[:, :-1], None), Chunk(x[:, -1:], 0)]
    held = context.adapter.decode(chunks, counted=True)[-1].held
    if held >= TOKENS:
        got, what = f"{held}", f"one token after {TOKENS - 1}"
        raise Violation(ViolationKind.VALUE, f"fewer than {TOKENS} numbers", got, what)
