"""Dropout acts on the attention weights, independently on each, in training only.

Each output coordinate is made to show one weight, dropped or scaled
(`properties.families.dropped_weights`). Rates are then estimated by counting samples
(`properties.families.dropout_rates`).

Dropout at other places has other effects. With dropout of queries, keys or scores, unequal kept
weights are no longer the same multiple of the undropped ones. With dropout of values or of the
input, a value vanishes from all queries together. With dropout of the heads' outputs, single
coordinates of a single token vanish. The final output may also be dropped, as in GPT-2. To
distinguish this from the heads' outputs, W_o is set to ones, so that each element of the output is
the sum of all coordinates: it is complete, or zero. Without an output layer the two are the same.
"""

import functools
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.cases.case_transforms import with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.counting import count_share
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.dropout_rates import (
    compute_chance_of_two,
    compute_effective_rate,
    compute_whole_value_rate,
    estimate_second_keep_rate,
    is_improbable,
)
from headcheck.properties.families.dropped_weights import (
    IN_TRAINING,
    DropoutObservation,
    RevealedWeights,
    count_single_sequences,
    draw_units,
    get_length_of_single_values,
    make_revealing_parameters,
    make_unlike_tokens,
    observe_dropout,
    reveal_weights,
    run_on_single_values,
    simplify_for_counting,
)
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.call_sizes import add_case
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.steps import build_fresh_module
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.peculiarity import DROPOUT, select_plainest
from headcheck.properties.violations.violation import Note, Reason, Violation, ViolationKind
from headcheck.reference import Parameters

family_property = PropertyFamily(PropertyGroup.DROPOUT, FORM)
RATE_HINT = "dropout acts on the weights, after the softmax, and nowhere else"
OUTPUT_HINT = "dropout acts on the weights, after the softmax, and behind the output layer"
OF_A_TOKEN = "what a token adds to the output"
VALUES_HINT = "is dropout applied to the values, or to the input?"
EXTRA_DROPOUT = Note(
    "extra_dropout",
    "besides the attention weights, dropout also acts on the output; the exercise does not ask "
    "for that",
)
UNLIKE_SEQUENCES = 64
"""How many sequences with different weights are compared."""
ONLY_WEIGHTS_DROPPED = "nothing but attention weights dropped"
AND_OUTPUTS = "nothing but attention weights and numbers of the output dropped"


def _tell_places(context: CaseContext) -> str:
    """Return the hint on where dropout acts, if that is not on weights alone."""
    return OUTPUT_HINT if context.contract.has(C.OUTPUT_DROPOUT) else ""


def assert_frequency(
    hits: Tensor, probability: float, expected: str, what: str, hint: str = ""
) -> None:
    """Raise Violation if so many hits would be too improbable in a right module."""
    successes, samples = int(hits.sum()), hits.numel()
    if is_improbable(successes, samples, probability):
        got = f"{successes / samples:.4f} (of {samples} looked at)"
        told = f"{expected}: {probability:.4f}", got, what
        raise Violation(ViolationKind.VALUE, *told, hint=hint)


counted_property = functools.partial(
    family_property, on=simplify_for_counting, limit=1, dtypes=("float64",)
)


@counted_property(C.DROPOUT, hint="what reaches the output besides the weighted sum of values?")
def each_token_adds_its_own_value(context: LiveContext) -> None:
    """If all scores are equal, each token adds its value to the output, and nothing else."""
    revealed = context.compute_once(reveal_weights)
    _assert_something_shows(revealed)
    exact = float(revealed.exact.abs().max())
    most = float(revealed.shown.nan_to_num().abs().max())
    if most > 2 * exact:
        got = f"{most:.4g} times its value"
        raise Violation(ViolationKind.VALUE, f"{exact:.4g} times its value", got, OF_A_TOKEN)
    _assert_zeros_take_their_own_part(revealed)


def _assert_something_shows(revealed: RevealedWeights) -> None:
    """Raise Violation if most outputs show nothing that could be dropped."""
    arriving = revealed.shown.abs().amax(-1)  # NaN where a number is
    for numbers, least in ((arriving, 0.5), (revealed.single, 1.0)):
        if not bool(numbers.isfinite().any()):
            raise Violation(ViolationKind.VALUE, "its value", "no finite number", OF_A_TOKEN)
        nothing = ~numbers.isfinite() | (numbers == 0)
        if float((~nothing).double().mean()) < least:
            share = count_share(int(nothing.sum()), nothing.numel(), "number")
            got = f"{share} zero, or not finite"
            raise Violation(ViolationKind.VALUE, "its value", got, OF_A_TOKEN)
    if not bool(revealed.visible.any()):
        got = "heads with values of unlike tokens"
        raise Violation(ViolationKind.VALUE, "its value in every head", got, OF_A_TOKEN)


def _assert_zeros_take_their_own_part(revealed: RevealedWeights) -> None:
    """Raise Violation unless setting a token to zero removes its value, and nothing else."""
    tokens = len(revealed.without)
    own = torch.eye(tokens).bool().view(tokens, 1, 1, tokens)
    expected = revealed.shown.nan_to_num().masked_fill(own, 0)
    off = (revealed.without.nan_to_num() - expected).abs()
    if float(off.max()) <= 1e-4:
        return
    token = int(off.amax((1, 2, 3)).argmax())
    left = float(off[token, ..., token].max())
    got = f"{left:.4g} of it is left" if left > 1e-4 else "other parts of the output change"
    raise Violation(ViolationKind.VALUE, f"without token {token}, its part alone", got, "output")


SHOWN = (each_token_adds_its_own_value,)


@counted_property(C.DROPOUT, after=SHOWN, hint=RATE_HINT)
def dropout_drops_the_stated_share(context: LiveContext) -> None:
    """In training, each attention weight is dropped with the probability `dropout`."""
    observation = context.compute_once(observe_dropout)
    rate, _ = compute_effective_rate(context, observation)
    if _is_drawn_together(observation):
        return  # what is counted are fewer draws, and another claim says so
    expected = "the share of dropped weights"
    dropped, where = observation.ratio == 0, "weights in training"
    assert_frequency(dropped, rate, expected, where, _tell_places(context))


@counted_property(C.DROPOUT, after=(it_equals_the_equation, *SHOWN), hint=RATE_HINT)
def dropout_scales_up_what_it_keeps(context: LiveContext) -> None:
    """In training, each kept weight is multiplied by 1/(1 - dropout)."""
    observation = context.compute_once(observe_dropout)
    _, factor = compute_effective_rate(context, observation)
    kept = observation.ratio[observation.ratio != 0]
    if kept.numel() == 0:
        expected = f"kept weights times {factor:.4f}"
        told = expected, "none is kept", "weights"
        raise Violation(ViolationKind.VALUE, *told, hint=_tell_places(context))
    worst = float(kept[(kept - factor).abs().argmax()])
    if abs(worst - factor) > 1e-6:
        raise _make_factor_violation(context, factor, f"times {worst:.4f}")
    _assert_unlike_weights_scaled_alike(context, factor)


def _make_factor_violation(context: CaseContext, factor: float, got: str) -> Violation:
    expected = f"kept weights times 1/(1 - {context.case.dropout:g}) = {factor:.4f}"
    told = expected, got, "weights in training"
    return Violation(ViolationKind.VALUE, *told, hint=_tell_places(context))


def _assert_unlike_weights_scaled_alike(context: LiveContext, factor: float) -> None:
    """Raise Violation if dropout also changes kept weights, as dropout of scores does."""
    case = context.case
    drawn, x = context.parameters, make_unlike_tokens(case)
    revealing = make_revealing_parameters(context)
    parameters = replace(revealing, W_q=4 * drawn.W_q, W_k=4 * drawn.W_k)
    expected = context.compute_expected(x, parameters)
    options = IN_TRAINING
    repeated = x.expand(UNLIKE_SEQUENCES, -1, -1).contiguous()
    output = context.run_module(repeated, parameters, options=options)[0]
    exact, tolerance = factor * expected.outputs[0], factor * expected.tolerances[0].exact
    off = (output != 0) & ~((output - exact).abs() <= tolerance)
    if bool(off.any()):
        share = count_share(int(off.sum()), int((output != 0).sum()), "kept weight")
        got = f"{share} multiplied by something else"
        raise _make_factor_violation(context, factor, got)


@counted_property(
    C.DROPOUT, after=SHOWN, hint="each weight is dropped or kept by a draw of its own"
)
def every_weight_is_dropped_for_itself(context: LiveContext) -> None:
    """Weights are dropped independently for each sequence, head, query and key."""
    observation = context.compute_once(observe_dropout)
    rate, _ = compute_effective_rate(context, observation)
    together = compute_chance_of_two(rate)
    for name, alike in _compare_pairs(observation).items():
        expected = f"pairs of weights of {name} both dropped or both kept, by chance"
        assert_frequency(alike, together, expected, "weights in training")
    _assert_values_lost_by_chance(context, observation, rate)


def _compare_pairs(observation: DropoutObservation) -> dict[str, Tensor]:
    """Return where two weights had the same fate, by the index in which they differ."""
    zero, visible = observation.ratios == 0, observation.visible
    shown, last = zero[..., visible], zero[..., -1, visible[-1]]
    both = visible[-2] & visible[-1]
    alike = {
        "two sequences": shown[:-1:2] == shown[1::2],
        "two queries": zero[..., -2, both] == zero[..., -1, both],
        "two keys": last[..., :-1:2] == last[..., 1::2],
    }
    if zero.shape[1] > 1:
        alike["two heads"] = shown[:, 0] == shown[:, 1]
    return alike


def _is_drawn_together(observation: DropoutObservation, of: str = "") -> bool:
    """Whether weights are dropped together more often than by chance, also for two of a kind.

    Chance is computed from the observed share.
    """
    together = compute_chance_of_two(float((observation.ratio == 0).double().mean()))
    pairs = [alike for name, alike in _compare_pairs(observation).items() if of in ("", name)]
    return any(is_improbable(int(each.sum()), each.numel(), together) for each in pairs)


def _assert_values_lost_by_chance(
    context: LiveContext, observation: DropoutObservation, rate: float
) -> None:
    """Raise Violation if all queries lose the first token together, as if its value was dropped."""
    seeing = observation.visible[:, 0]
    if not bool((seeing == context.list_visible()[:, 0]).all()):
        return  # a query gets nothing of it in evaluation, which is another fault
    lost = (observation.ratios[..., seeing, 0] == 0).all(-1)
    hits, heads = int(lost.sum()), lost.numel()
    if is_improbable(hits, heads, rate**context.case.tokens):
        got = f"in {hits} of {heads} heads no query got anything of the first token"
        expected = ONLY_WEIGHTS_DROPPED
        where = "outputs in training"
        raise Violation(ViolationKind.VALUE, expected, got, where, hint=VALUES_HINT)


@counted_property(C.DROPOUT, after=SHOWN, hint=RATE_HINT, essential=True)
def dropout_acts_on_the_attention_weights(context: LiveContext) -> None:
    """Dropping a weight removes a whole value, not single coordinates, even for a single token."""
    observation = context.compute_once(observe_dropout)
    share = estimate_second_keep_rate(context, observation)
    whole = compute_whole_value_rate(context, share)
    expected = "the share of values that vanish as a whole"
    rows = observation.vanished_rows
    if bool((rows == rows[0]).all()) and _is_drawn_together(observation, "two sequences"):
        return  # all of them drop the same
    tokens = get_length_of_single_values(context)
    case = replace(context.case, batch=rows.numel(), tokens=tokens)
    with add_case(context.contract, case):
        assert_frequency(rows, whole, expected, "outputs in training", _tell_places(context))
    if share < 1:
        _assert_dropout_of_output(context)


def _assert_dropout_of_output(context: LiveContext) -> None:
    """Raise Violation unless the second dropout acts on the final output.

    Every element of the output is then the sum of all heads' results, which are complete or zero.
    """
    got = "single coordinates of what the heads return vanish, too"
    hint = _tell_places(context)
    told = AND_OUTPUTS if hint else ONLY_WEIGHTS_DROPPED, got, "outputs in training"
    problem = Violation(ViolationKind.VALUE, *told, hint=hint, reason=Reason.COORDINATES_DROPPED)
    if not context.contract.has(C.OUTPUT_PROJECTION):
        raise problem
    case = context.case
    ones = torch.ones(case.d_out, case.d_out, dtype=torch.float64)
    parameters = replace(make_revealing_parameters(context), W_o=ones)
    sequences = count_single_sequences(context)
    output = run_on_single_values(context, parameters, IN_TRAINING, sequences)
    _, factor = compute_effective_rate(context, context.compute_once(observe_dropout))
    heads = output / (factor * case.head_dim)
    if not bool(((heads - heads.round()).abs() <= 1e-4).all()):
        raise problem
    if not context.contract.has(C.OUTPUT_DROPOUT):
        context.harness.add_note(EXTRA_DROPOUT)


@counted_property(
    C.OUTPUT_DROPOUT,
    after=(
        dropout_drops_the_stated_share,
        dropout_scales_up_what_it_keeps,
        dropout_acts_on_the_attention_weights,
    ),
    hint="a second dropout, behind the output layer, has the same rate",
)
def dropout_acts_on_the_output_too(context: LiveContext) -> None:
    """In training, numbers behind the output layer are dropped, too, with the same probability."""
    observation = context.compute_once(observe_dropout)
    dropped = 1 - estimate_second_keep_rate(context, observation)
    if abs(dropped - context.case.dropout) > 1e-6:
        expected = f"a share of {context.case.dropout:g} of the output's numbers dropped"
        where = "outputs in training"
        raise Violation(ViolationKind.VALUE, expected, f"a share of {dropped:.4f}", where)


@family_property(
    C.DROPOUT,
    on=with_values(dropout=0.5),
    choose=select_plainest,
    limit=1,
    about=DROPOUT,
    hint="in evaluation nothing is dropped, and nothing scaled",
)
def evaluation_ignores_dropout(context: CaseContext) -> None:
    """In evaluation mode the output is the output of attention without dropout."""
    without = context.with_case(replace(context.case, dropout=0.0))
    context.assert_outputs_unchanged(context.answer, without.run(), context.expected)


@counted_property(C.DROPOUT, hint="each call in training draws new random numbers from torch")
def every_call_drops_anew(context: LiveContext) -> None:
    """In training, calls and layers drop different weights, but equal ones after the same seed."""
    x = draw_units(context).expand(2, context.case.tokens, context.case.d_in).contiguous()
    parameters = make_revealing_parameters(context)

    def drop(seed: int, grad: str = "no_grad") -> Tensor:
        options = CallOptions(training=True, seed=seed, grad=grad)
        return context.run_module(x, parameters, options=options)[0]

    if bool((drop(1) == drop(2)).all()):
        expected = "other weights dropped"
        told = expected, "exactly the same", "a second call"
        raise Violation(ViolationKind.VALUE, *told, reason=Reason.DROPPED_AGAIN)
    evaluated = context.run_module(x, parameters, options=CallOptions())[0]
    if bool((drop(2, "inference") == evaluated).all()):
        got = "nothing in inference mode"
        raise Violation(ViolationKind.VALUE, "weights dropped in training", got, "a call")
    _assert_layers_differ(context, x, parameters)
    one, other = drop(1), drop(1)
    if not bool(((one == other) | one.isnan() & other.isnan()).all()):
        expected = "the same weights dropped after torch.manual_seed(1)"
        raise Violation(ViolationKind.VALUE, expected, "others", "a second call")


def _assert_layers_differ(context: LiveContext, x: Tensor, parameters: Parameters) -> None:
    """Raise Violation if two layers with the same weights, one after the other, drop the same."""
    one, other = build_fresh_module(context), build_fresh_module(context)
    one.set(parameters)
    other.set(parameters)
    options = CallOptions(training=True, seed=1)
    outputs = one.module.pair(other.module).forward(one.build_inputs(x, None), options).outputs
    if len(outputs) == 2 and torch.equal(*outputs):
        expected = "other weights dropped"
        told = expected, "exactly the same", "a second layer"
        raise Violation(ViolationKind.VALUE, *told, reason=Reason.DROPPED_AGAIN)
