"""Name what is wrong with dropout, from what becomes of every single attention weight.

The weights are recovered (`properties.harness.tomography`) once in evaluation and once in training,
from many copies of one sequence. Every element is then 0 or the exact weight times one number, or
something else; which number it is, and which elements vanish together, tells the mistakes apart.
Only what all elements agree on is said. Over the copies there are thousands of tosses, so that
elements vanish together by chance with a probability below 10⁻³⁰.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from properties.case import Case
from properties.contract import Trait
from properties.harness import tomography
from properties.harness.harness import Bench, Trial
from properties.mistakes.catalogue import Misconception
from properties.mistakes.catalogue import dropout as known
from properties.subject import How

COPIES = 128
RATE = 0.3
CASE = Case(
    batch=COPIES,
    tokens=4,
    context_length=4,
    d_in=12,
    heads=2,
    head_dim=6,
    dropout=RATE,
    seed=2011,
)
NEAR = 1e-9


@dataclass(frozen=True, eq=False)
class Weights:
    """The exact weights, and those of many copies of one sequence.

    Heads that are narrower than a sequence is long show the first keys alone.
    """

    exact: Float[Tensor, "heads q k"]
    scores: Float[Tensor, "heads q k"]
    used: Float[Tensor, "batch heads q k"]

    @property
    def visible(self) -> Bool[Tensor, "heads q k"]:
        """Which weights there are to be dropped."""
        return self.exact > 0

    @property
    def kept(self) -> Bool[Tensor, "batch visible"]:
        """Which of them are not zero."""
        return self.used[:, self.visible] != 0

    @property
    def factor(self) -> float | None:
        """The one number that all kept weights are multiplied by, if there is one."""
        ratio = (self.used[:, self.visible] / self.exact[self.visible])[self.kept]
        if not ratio.numel():
            return None
        spread = ratio.max() - ratio.min()
        return float(ratio[0]) if bool(spread <= NEAR * ratio.abs().max()) else None


def diagnose(bench: Bench, device: str) -> Misconception | None:
    """What is wrong with dropout alone, if it is known. Raises SubmissionFailed."""
    contract = bench.contract
    if not contract.has(*tomography.NEEDS, Trait.MODULE, Trait.BATCH):
        return None
    trial = bench.fresh(contract.fit(replace(CASE, device=device)))
    evaluated = _weights(trial, training=False)
    found = _in_evaluation(evaluated, trial.case.dropout)
    if found is not None or not _right(evaluated):
        return found
    return _in_training(trial, _weights(trial, training=True))


def _weights(trial: Trial, training: bool) -> Weights:
    case = trial.case
    columns = tomography.payload_width(case)
    parameters = tomography.routing(trial)
    x = tomography.sequence(case, 0, columns)
    exact = trial.expect(x, parameters, mask=None).exact
    shown = _outputs(trial, x.expand(case.batch, -1, -1), training)
    used = shown[..., :columns].permute(0, 2, 1, 3)[..., : case.tokens]
    seen = used.shape[-1]
    return Weights(exact.weights[0, ..., :seen], exact.scores[0, ..., :seen], used)


def _outputs(trial: Trial, x: Tensor, training: bool) -> Tensor:
    """The output of every head: batch tokens heads head_dim."""
    parameters = tomography.routing(trial)
    trial.instance.set(parameters)
    how = How(training=training, seed=trial.case.seed)
    output = trial.run(x.contiguous(), parameters, mask=None, how=how)[0]
    heads: Tensor = output.unflatten(-1, (trial.case.heads, trial.case.head_dim))
    return heads


def _right(weights: Weights) -> bool:
    return _near(weights.used, weights.exact)


def _near(one: Tensor, other: Tensor) -> bool:
    return bool(((one - other).abs() <= NEAR).all())


def _in_evaluation(seen: Weights, rate: float) -> Misconception | None:
    factor, kept = seen.factor, seen.kept
    if factor is None:
        return None
    if not bool(kept.all()):
        return known.IN_EVALUATION if _by_chance(kept) else None
    if rate and abs(factor - (1 - rate)) < NEAR:
        return known.SCALED_IN_EVALUATION
    return None


def _in_training(trial: Trial, seen: Weights) -> Misconception | None:
    rate = trial.case.dropout
    if _right(seen):
        return known.NEVER if rate else None
    if not rate:
        return known.NOT_ASKED_FOR if seen.factor is not None else None
    whole = _whole_beside_single_coordinates(trial)
    if whole is not None:
        return known.NOT_ON_WEIGHTS if whole < RATE / 4 else None
    if seen.factor is None:
        return _by_rows(seen, rate) if seen.exact.shape[-1] == trial.case.tokens else None
    return _by_factor(seen, seen.factor, rate) or _together(seen)


def _by_factor(seen: Weights, factor: float, rate: float) -> Misconception | None:
    share = float(seen.kept.double().mean())

    def like(number: float, probability: float) -> bool:
        # Thousands of tosses: a share is off by 0.1 in one of 10³⁰ runs.
        return abs(factor - number) < NEAR and abs(share - probability) < 0.1

    keep = 1 - rate
    if like(1 / keep, keep):
        return None
    if like(1.0, keep):
        return known.NOT_RESCALED
    if like(1 / rate, rate):
        return known.KEEPS_P
    if like(1 / rate, keep):
        return known.SCALED_BY_P
    if like(1 / keep**2, keep**2):
        return known.TWICE
    if any(like(1 / (1 - other), 1 - other) for other in (0.1, 0.2, 0.5)):
        return known.OTHER_RATE
    return None


def _together(seen: Weights) -> Misconception | None:
    """Which weights share their fate."""
    alive = seen.used != 0
    hidden = ~seen.visible
    if bool((alive == alive[:1]).all()):
        return known.SHARED_BY_BATCH
    if alive.shape[1] > 1 and bool((alive == alive[:, :1]).all()):
        return known.SHARED_BY_HEADS
    rows = (alive | hidden).all(-1) | ~alive.any(-1)
    if bool(rows.all()):
        return known.WHOLE_ROWS
    columns = (alive | hidden).all(-2) | ~alive.any(-2)
    return known.WHOLE_KEYS if bool(columns.all()) else None


def _by_rows(seen: Weights, rate: float) -> Misconception | None:
    """Rows that are what some choice of dropped elements makes of the exact ones."""
    ways: tuple[tuple[Misconception, Way], ...] = (
        (known.RENORMALISED, lambda exact, _: _renormalised(exact)),
        (known.BEFORE_SOFTMAX, lambda _, scores: _before_softmax(scores, rate)),
    )
    for each, way in ways:
        if all(
            _one_of(way(seen.exact[h, q, v], seen.scores[h, q, v]), seen.used[:, h, q, v])
            for h, q, v in _rows(seen.visible)
        ):
            return each
    return None


Way = Callable[[Tensor, Tensor], Tensor]
"""What dropping may make of a row, from its exact weights and its scores: one row a choice."""


def _rows(visible: Bool[Tensor, "heads q k"]) -> Iterator[tuple[int, int, Tensor]]:
    heads, queries, _ = visible.shape
    for h, q in itertools.product(range(heads), range(queries)):
        yield h, q, visible[h, q]


def _choices(count: int) -> Float[Tensor, "choices {count}"]:
    """Every way to keep some of so many elements."""
    return torch.tensor(list(itertools.product((0.0, 1.0), repeat=count)), dtype=torch.float64)


def _renormalised(exact: Float[Tensor, "visible"]) -> Float[Tensor, "choices visible"]:
    kept = exact * _choices(exact.shape[0])
    # A row of which nothing is left may be anything: zeros, or NaN made zeros.
    return kept / kept.sum(-1, keepdim=True).clamp_min(1e-12)


def _before_softmax(
    scores: Float[Tensor, "visible"], rate: float
) -> Float[Tensor, "choices visible"]:
    return torch.softmax(scores * _choices(scores.shape[0]) / (1 - rate), dim=-1)


def _one_of(
    known_rows: Float[Tensor, "choices visible"], rows: Float[Tensor, "batch visible"]
) -> bool:
    """Whether every row is one of those that are known, but for rows that are lost to NaN.

    Some must be left, and not all the same.
    """
    rows = rows[rows.isfinite().all(-1)]
    distance = (rows[:, None] - known_rows[None]).abs().amax(-1)
    return bool(rows.numel()) and bool((distance.amin(-1) <= NEAR).all())


def _whole_beside_single_coordinates(trial: Trial) -> float | None:
    """The share of values that vanish as a whole, if there are some of which single coordinates do.

    With the same payload in all dimensions the coordinates of a head are equal, unless something
    other than weights is dropped. The first token has one weight: where weights are dropped, too,
    all its coordinates vanish at once.
    """
    columns = tomography.payload_width(trial.case)
    x = tomography.sequence(trial.case, 0, columns).clone()
    x[..., -columns:] = 1
    # An instance of its own: nothing that an earlier call left behind has a part in this.
    alone = trial.bench.fresh(trial.case)
    shown = _outputs(alone, x.expand(trial.case.batch, -1, -1), training=True)[..., :columns]
    gone = shown[:, 0] == 0
    single = _by_chance(gone) and bool((gone.any(-1) & ~gone.all(-1)).any())
    return float(gone.all(-1).double().mean()) if single else None


def _by_chance(kept: Bool[Tensor, "batch *elements"]) -> bool:
    """Whether some element is kept in some copies and dropped in others."""
    return bool((kept.any(0) & ~kept.all(0)).any())
