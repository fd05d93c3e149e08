"""Dropout acts on the attention weights, on each for itself, in training only.

The dropped weights are recovered like the weights themselves (`properties.harness.tomography`):
with all queries zero every visible weight is the same known number, values are unit vectors and W_o
is the identity, so each output coordinate shows one weight, dropped or scaled. Rates are then
counts of coin tosses. A count is called wrong when Chernoff's bound n KL(k/n ‖ p) says that a
correct module would give it with probability below 10⁻¹⁰; a module faces fewer than ten such
counts, so a right one is accused with probability below 10⁻⁹. The share of dropped weights is
counted over at least 120,000 of them: a rate that is off by 0.02 is missed with probability below
10⁻¹⁵.

What else is dropped, besides, shows in other ways. Of queries, keys or scores: what is kept of
unlike weights is no longer one multiple of them. Of values or of the input: a value vanishes from
all queries at once. Of what the heads return: single coordinates of a single token vanish. The
final output may lose some, too, as in GPT-2; to tell that from the heads' results, each element of
the output then adds up all of those: it is whole, or nothing. Without an output layer the two are
the same thing.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from properties.case import Case, Content, MaskForm, Memory
from properties.cases.case_tensors import generator
from properties.cases.case_transforms import with_values
from properties.contract import Trait
from properties.families.contract import FORM
from properties.families.values import it_equals_the_equation
from properties.harness.harness import Trial
from properties.property import Claims, Group
from properties.subject import How
from properties.violation import Kind, Note, Violation
from reference import Parameters

claims = Claims(Group.DROPOUT, FORM)
T = Trait
TOSSES = 120_000
WHOLE = 4_000
TOKENS = 16
TOSSED = 1
"""Where the submission's random numbers begin: a count is no other in another run."""
FALSE_POSITIVES = 1e-10
RATE_HINT = "nn.Dropout(dropout) on the attention weights, after the softmax, and nowhere else"
VALUES_HINT = "is dropout applied to the values, or to the input, as well as to the weights?"
EXTRA = Note(
    "extra_dropout",
    "besides the attention weights, dropout also acts on the output; the exercise does not ask "
    "for that",
)
SEQUENCES = 64
"""so many show what becomes of unlike weights"""
NOTHING_ELSE = "nothing but attention weights dropped"


def for_counting(case: Case) -> Case:
    """Tokens that fit into a head side by side, and nothing else of interest.

    In float32: what is counted is whether a weight is zero.
    """
    return replace(
        case,
        batch=1,
        tokens=TOKENS,
        context_length=TOKENS,
        d_in=TOKENS,
        heads=2,
        head_dim=TOKENS,
        bias=False,
        dropout=0.3,
        sharpness=1,
        content=Content.NORMAL,
        memory=Memory.CONTIGUOUS,
        mask_form=MaskForm.NONE,
        dtype="float32",
    )


@dataclass(frozen=True, eq=False)
class Dropped:
    """The visible attention weights of many training calls, relative to their undropped value."""

    ratio: Float[Tensor, "batch heads visible"]
    first: Bool[Tensor, "batch heads"]  # whether no query got anything of the first token
    vanished: Bool[Tensor, "rows"]  # single tokens of which every coordinate vanished
    partly: bool  # some coordinates of a token vanish without the others

    @property
    def rate(self) -> float:
        """The share that is zero."""
        return float((self.ratio == 0).double().mean())


def observe(trial: Trial) -> Dropped:
    """Run it in training mode on enough sequences to count by."""
    case = trial.case
    parameters = _revealing(trial)
    visible = torch.ones(case.tokens, case.tokens).tril().bool()
    per_sequence = int(visible.sum()) * case.heads
    one = _unlike_tokens(case) * _units(trial)
    x = one.expand(-(-TOSSES // per_sequence), -1, -1).contiguous()
    how = How(training=True, seed=TOSSED)
    weights = _by_head(trial.run(x, parameters, how=how)[0], case)[..., : case.tokens]
    ratio = weights * torch.arange(1, case.tokens + 1)[:, None]
    single = _by_head(trial.run(_alone(trial), parameters, how=how)[0], case)
    zero = (single == 0)[:, 0, 0]
    survivors = zero[~zero.all(-1)]
    nothing = (ratio[..., 0] == 0).all(-1)
    return Dropped(ratio[..., visible], nothing, zero.all(-1), bool(survivors.any()))


def _unlike_tokens(case: Case) -> Float[Tensor, "1 tokens d_in"]:
    """Token j is the unit vector number j."""
    x = torch.zeros(1, case.tokens, case.d_in, dtype=torch.float64)
    x[0].fill_diagonal_(1)
    return x


def _alone(trial: Trial) -> Float[Tensor, "batch 1 d_in"]:
    """Sequences of a single token, all of whose values are one."""
    return _units(trial).expand(WHOLE, 1, trial.case.d_in).contiguous()


def _by_head(output: Tensor, case: Case) -> Float[Tensor, "batch heads tokens head_dim"]:
    heads: Tensor = output.unflatten(-1, (case.heads, case.head_dim))
    return heads.transpose(1, 2)


def _revealing(trial: Trial) -> Parameters:
    """No queries, unit values, no output mixing: each output coordinate is one weight."""
    case = trial.case
    zero = torch.zeros(case.d_out, case.d_in, dtype=torch.float64)
    unit = torch.eye(case.head_dim, case.d_in, dtype=torch.float64) / _units(trial)
    values = unit.repeat(case.heads, 1)
    nothing = torch.zeros(case.d_out, dtype=torch.float64)
    drawn = dict(trial.parameters.items())
    return Parameters(
        W_q=zero,
        W_k=zero,
        W_v=values,
        b_q=nothing if "b_q" in drawn else None,
        b_k=nothing if "b_k" in drawn else None,
        b_v=nothing if "b_v" in drawn else None,
        W_o=torch.eye(case.d_out, dtype=torch.float64) if "W_o" in drawn else None,
        b_o=nothing if "b_o" in drawn else None,
    )


def _units(trial: Trial) -> Float[Tensor, "d_in"]:
    """The unit in which each input dimension is measured: a power of two of either sign.

    Drawn from the case's seed, so that nobody knows these inputs before the run. The values undo
    it without rounding, so that what is counted does not depend on it.
    """
    draw, width = generator(trial.case, "x2"), (trial.case.d_in,)
    exponents = torch.randint(-8, 9, width, generator=draw)
    signs = 1 - 2 * torch.randint(0, 2, width, generator=draw)
    return torch.ldexp(signs.double(), exponents)


def improbable(successes: int, tosses: int, probability: float) -> bool:
    """Whether a count is too far from its expectation to be chance: Chernoff, two-sided."""
    if not 0 < probability < 1:
        return successes != round(tosses * probability)
    share = successes / tosses
    divergence = sum(
        a * math.log(a / b)
        for a, b in ((share, probability), (1 - share, 1 - probability))
        if a > 0
    )
    return 2 * math.exp(-tosses * divergence) < FALSE_POSITIVES


def _must_toss(hits: Tensor, probability: float, expected: str, what: str) -> None:
    successes, tosses = int(hits.sum()), hits.numel()
    if improbable(successes, tosses, probability):
        got = f"{successes / tosses:.4f} (of {tosses} looked at)"
        raise Violation(Kind.VALUE, f"{expected}: {probability:.4f}", got, what)


def _kept_besides(trial: Trial, seen: Dropped) -> float:
    """The share that a second dropout, on single coordinates, keeps; 1 where none is seen.

    It can only be told where the weights are dropped as they should be. Then all that is kept is
    multiplied by one number, which tells the rate.
    """
    vanished = int(seen.vanished.sum())
    kept = seen.ratio[seen.ratio != 0]
    if not seen.partly or not kept.numel():
        return 1.0
    share = 1 / (float(kept.median()) * (1 - trial.case.dropout))
    if not 0 < share < 1 or improbable(vanished, seen.vanished.numel(), _whole(trial, share)):
        return 1.0
    return share


def _whole(trial: Trial, share: float) -> float:
    """How likely a value vanishes as a whole, if so many of its coordinates are kept."""
    rate = trial.case.dropout
    return rate + (1 - rate) * (1 - share) ** trial.case.head_dim


def _effective(trial: Trial, seen: Dropped) -> tuple[float, float]:
    """The rate and the factor of what is seen: a second dropout adds its own."""
    keep = (1 - trial.case.dropout) * _kept_besides(trial, seen)
    return 1 - keep, 1 / keep


@claims(T.DROPOUT, on=for_counting, limit=1, hint=RATE_HINT, dtypes=("float64",))
def dropout_drops_the_stated_share(trial: Trial) -> None:
    """In training, each attention weight is dropped with the probability `dropout`."""
    seen = trial.once(observe)
    rate, _ = _effective(trial, seen)
    _must_toss(seen.ratio == 0, rate, "the share of dropped weights", "weights in training")


@claims(
    T.DROPOUT,
    on=for_counting,
    after=(it_equals_the_equation,),
    limit=1,
    hint=RATE_HINT,
    dtypes=("float64",),
)
def dropout_scales_up_what_it_keeps(trial: Trial) -> None:
    """In training, each kept weight is multiplied by 1/(1 - dropout)."""
    seen = trial.once(observe)
    _, factor = _effective(trial, seen)
    kept = seen.ratio[seen.ratio != 0]
    if kept.numel() == 0:
        raise Violation(Kind.VALUE, f"kept weights times {factor:.4f}", "none is kept", "weights")
    worst = float(kept[(kept - factor).abs().argmax()])
    if abs(worst - factor) > 1e-6:
        raise _another_factor(trial, factor, f"times {worst:.4f}")
    _unlike_weights_are_scaled_alike(trial, factor)


def _another_factor(trial: Trial, factor: float, got: str) -> Violation:
    expected = f"kept weights times 1/(1 - {trial.case.dropout:g}) = {factor:.4f}"
    return Violation(Kind.VALUE, expected, got, "weights in training")


def _unlike_weights_are_scaled_alike(trial: Trial, factor: float) -> None:
    """Raises Violation where dropping changes weights that it keeps, as by way of their scores."""
    case = trial.case
    revealing = dict(_revealing(trial).items())
    drawn = {name: 4 * getattr(trial.parameters, name) for name in ("W_q", "W_k")}
    parameters = Parameters(**{**revealing, **drawn})
    x = _unlike_tokens(case)
    expected = trial.expect(x, parameters)
    how = How(training=True, seed=TOSSED)
    shown = trial.run(x.expand(SEQUENCES, -1, -1).contiguous(), parameters, how=how)[0]
    exact, allowed = factor * expected.outputs[0], factor * expected.allowed[0].exact
    off = (shown != 0) & ~((shown - exact).abs() <= allowed)
    if bool(off.any()):
        got = f"{int(off.sum())} of {int((shown != 0).sum())} are other numbers"
        raise _another_factor(trial, factor, got)


@claims(
    T.DROPOUT,
    on=for_counting,
    limit=1,
    hint="draw one mask of the shape of the weights: (batch, heads, tokens, tokens)",
    dtypes=("float64",),
)
def every_weight_is_dropped_for_itself(trial: Trial) -> None:
    """Weights are dropped independently: of other sequences, heads, queries and keys."""
    seen = trial.once(observe)
    rate, _ = _effective(trial, seen)
    zero = seen.ratio == 0
    together = rate**2 + (1 - rate) ** 2
    pairs = {"two sequences": (zero[:-1:2], zero[1::2])}
    last = zero[..., -2 * trial.case.tokens + 1 :]  # the last two rows of the visible triangle
    one, other = last.split((trial.case.tokens - 1, trial.case.tokens), dim=-1)
    pairs["two queries"] = (one, other[..., :-1])
    pairs["two keys"] = (other[..., :-1:2], other[..., 1::2])
    if trial.case.heads > 1:
        pairs["two heads"] = (zero[:, 0], zero[:, 1])
    for name, (one, other) in pairs.items():
        count = min(one.shape[0], other.shape[0])
        alike = one[:count] == other[:count]
        expected = f"pairs of weights of {name} both dropped or both kept, by chance"
        _must_toss(alike, together, expected, "weights in training")
    _queries_do_without_a_value_by_chance(trial, seen, rate)


def _queries_do_without_a_value_by_chance(trial: Trial, seen: Dropped, rate: float) -> None:
    """Raises Violation where the first token is lost to all queries at once, as a dropped value is.

    Unless some query gets nothing of it in evaluation, which is another fault.
    """
    shown = trial.run(_unlike_tokens(trial.case), _revealing(trial), how=How())[0]
    if not bool(_by_head(shown, trial.case)[..., 0].all()):
        return
    hits = int(seen.first.sum())
    if improbable(hits, seen.first.numel(), rate**trial.case.tokens):
        got = f"in {hits} of {seen.first.numel()} heads no query got anything of the first token"
        raise Violation(Kind.VALUE, NOTHING_ELSE, got, "training", hint=VALUES_HINT)


@claims(T.DROPOUT, on=for_counting, limit=1, hint=RATE_HINT, dtypes=("float64",))
def dropout_acts_on_the_attention_weights(trial: Trial) -> None:
    """Dropping a weight removes a whole value from the average, not single coordinates of it."""
    seen = trial.once(observe)
    share = _kept_besides(trial, seen)
    whole = _whole(trial, share)
    _must_toss(seen.vanished, whole, "the share of values that vanish as a whole", "training")
    if share < 1:
        _must_be_of_the_output(trial)


def _must_be_of_the_output(trial: Trial) -> None:
    """Raises Violation unless what vanishes besides the weights is of the final output.

    Every element of the output adds up the results of all heads, and these are whole or nothing.
    """
    got = "single coordinates of what the heads return vanish, too"
    problem = Violation(Kind.VALUE, NOTHING_ELSE, got, "training")
    if not trial.contract.has(T.OUTPUT_PROJECTION):
        raise problem
    case = trial.case
    everything = {"W_o": torch.ones(case.d_out, case.d_out, dtype=torch.float64)}
    parameters = Parameters(**{**dict(_revealing(trial).items()), **everything})
    how = How(training=True, seed=TOSSED)
    output = trial.run(_alone(trial), parameters, how=how)[0]
    _, factor = _effective(trial, trial.once(observe))
    heads = output / (factor * case.head_dim)
    if not bool(((heads - heads.round()).abs() <= 1e-4).all()):
        raise problem
    trial.bench.note(EXTRA)


@claims(T.DROPOUT, on=with_values(dropout=0.5), limit=1, hint="F.dropout needs training=...")
def evaluation_ignores_dropout(trial: Trial) -> None:
    """In evaluation mode the output is that of attention without dropout."""
    without = trial.bench.trial(replace(trial.case, dropout=0.0))
    trial.must_be_as_before(without.run())


@claims(T.MODULE, on=with_values(dropout=0.0), limit=1, hint=RATE_HINT)
def no_dropout_means_no_difference(trial: Trial) -> None:
    """Without dropout, training gives what evaluation gives."""
    trial.must_be_as_before(trial.run(how=How(training=True, seed=1)))


@claims(T.DROPOUT, on=for_counting, limit=1, hint="draw anew in every call", dtypes=("float64",))
def every_call_drops_anew(trial: Trial) -> None:
    """In training two calls drop different weights; after the same seed they drop the same."""
    x = _units(trial).expand(2, trial.case.tokens, trial.case.d_in).contiguous()
    parameters = _revealing(trial)

    def drop(seed: int) -> Tensor:
        return trial.run(x, parameters, how=How(training=True, seed=seed))[0]

    if bool((drop(1) == drop(2)).all()):
        raise Violation(Kind.VALUE, "other weights dropped", "exactly the same", "a second call")
    one, other = drop(1), drop(1)
    if not bool(((one == other) | one.isnan() & other.isnan()).all()):
        expected = "the same weights dropped after torch.manual_seed(1)"
        raise Violation(Kind.VALUE, expected, "others", "a second call")


ALL = (
    dropout_drops_the_stated_share,
    dropout_scales_up_what_it_keeps,
    every_weight_is_dropped_for_itself,
    dropout_acts_on_the_attention_weights,
    evaluation_ignores_dropout,
    no_dropout_means_no_difference,
    every_call_drops_anew,
)
