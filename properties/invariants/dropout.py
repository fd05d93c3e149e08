"""Dropout acts on the attention weights, on each for itself, in training only.

The dropped weights are recovered like the weights themselves (`properties.tomography`): with all
queries zero every visible weight is the same known number, values are unit vectors and W_o is the
identity, so each output coordinate shows one weight, dropped or scaled. Rates are then counts of
coin tosses. A count is called wrong when Chernoff's bound n KL(k/n ‖ p) says that a correct module
would give it with probability below 10⁻¹⁰; a module faces fewer than ten such counts, so a right
one is accused with probability below 10⁻⁹. The share of dropped weights is counted over at least
120,000 of them: a rate that is off by 0.02 is missed with probability below 10⁻¹⁵.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from properties.case import Case, Content, MaskForm, Memory
from properties.contract import Trait
from properties.invariants.contract import FORM
from properties.invariants.values import it_equals_the_equation
from properties.materials import generator
from properties.preparing import with_values
from properties.property import Claims, Group
from properties.subject import How
from properties.trial import Trial
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
EXTRA = Note(
    "extra_dropout",
    "besides the attention weights, dropout also acts on the output; the exercise does not ask "
    "for that",
)


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
    batch = -(-TOSSES // per_sequence)
    x = torch.zeros(1, case.tokens, case.d_in, dtype=torch.float64)
    x[0].fill_diagonal_(1)
    x = x * _units(trial)
    how = How(training=True, seed=TOSSED)
    output = trial.run(x.expand(batch, -1, -1).contiguous(), parameters, how=how)[0]
    weights = output.unflatten(-1, (case.heads, case.head_dim))[..., : case.tokens]
    ratio = weights.permute(0, 2, 1, 3) * torch.arange(1, case.tokens + 1)[:, None]
    ones = _units(trial).expand(WHOLE, 1, case.d_in).contiguous()
    single = trial.run(ones, parameters, how=how)[0].unflatten(-1, (case.heads, case.head_dim))
    zero = (single == 0)[:, 0, 0]
    survivors = zero[~zero.all(-1)]
    return Dropped(ratio[..., visible], zero.all(-1), bool(survivors.any()))


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


def _effective(trial: Trial, seen: Dropped) -> tuple[float, float]:
    """The rate and the factor of what is seen: an extra dropout on the output adds its own."""
    keep = 1 - trial.case.dropout
    vanished = int(seen.vanished.sum())
    on_weights = not improbable(vanished, seen.vanished.numel(), trial.case.dropout)
    if seen.partly and on_weights:
        trial.bench.note(EXTRA)
        return 1 - keep * keep, 1 / keep**2
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
        expected = f"kept weights times 1/(1 - {trial.case.dropout:g}) = {factor:.4f}"
        raise Violation(Kind.VALUE, expected, f"times {worst:.4f}", "weights in training")


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


@claims(T.DROPOUT, on=for_counting, limit=1, hint=RATE_HINT, dtypes=("float64",))
def dropout_acts_on_the_attention_weights(trial: Trial) -> None:
    """Dropping a weight removes a whole value from the average, not single coordinates of it."""
    seen = trial.once(observe)
    rate = trial.case.dropout
    _must_toss(seen.vanished, rate, "the share of values that vanish as a whole", "training")


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
