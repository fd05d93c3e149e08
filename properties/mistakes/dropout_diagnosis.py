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
from properties.contract import Capability
from properties.harness import tomography
from properties.harness.harness import Harness, LiveContext
from properties.mistakes.catalogue import Mistake
from properties.mistakes.catalogue import dropout as dropout_mistakes
from properties.subject import CallOptions

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
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class DropoutWeights:
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
        return float(ratio[0]) if bool(spread <= TOLERANCE * ratio.abs().max()) else None


def diagnose_dropout(harness: Harness, device: str) -> Mistake | None:
    """What is wrong with dropout alone, if it is known. Raises SubmissionFailed."""
    contract = harness.contract
    if not contract.has(*tomography.REQUIRED_CAPABILITIES, Capability.MODULE, Capability.BATCH):
        return None
    context = harness.create_context(contract.fit(replace(CASE, device=device)))
    evaluated = _recover_dropout_weights(context, training=False)
    found = _diagnose_evaluation(evaluated, context.case.dropout)
    if found is not None or not _is_exact(evaluated):
        return found
    return _diagnose_training(context, _recover_dropout_weights(context, training=True))


def _recover_dropout_weights(context: LiveContext, training: bool) -> DropoutWeights:
    case = context.case
    columns = tomography.compute_payload_width(case)
    parameters = tomography.make_routing_parameters(context)
    x = tomography.make_sequence(case, 0, columns)
    exact = context.compute_expected(x, parameters, mask=None).exact
    shown = _run_heads(context, x.expand(case.batch, -1, -1), training)
    used = shown[..., :columns].permute(0, 2, 1, 3)[..., : case.tokens]
    observed = used.shape[-1]
    return DropoutWeights(exact.weights[0, ..., :observed], exact.scores[0, ..., :observed], used)


def _run_heads(context: LiveContext, x: Tensor, training: bool) -> Tensor:
    """The output of every head: batch tokens heads head_dim."""
    parameters = tomography.make_routing_parameters(context)
    context.adapter.set(parameters)
    options = CallOptions(training=training, seed=context.case.seed)
    output = context.run_module(x.contiguous(), parameters, mask=None, options=options)[0]
    heads: Tensor = output.unflatten(-1, (context.case.heads, context.case.head_dim))
    return heads


def _is_exact(weights: DropoutWeights) -> bool:
    return _is_close(weights.used, weights.exact)


def _is_close(one: Tensor, other: Tensor) -> bool:
    return bool(((one - other).abs() <= TOLERANCE).all())


def _diagnose_evaluation(observed: DropoutWeights, rate: float) -> Mistake | None:
    factor, kept = observed.factor, observed.kept
    if factor is None:
        return None
    if not bool(kept.all()):
        return dropout_mistakes.IN_EVALUATION if _is_random(kept) else None
    if rate and abs(factor - (1 - rate)) < TOLERANCE:
        return dropout_mistakes.SCALED_IN_EVALUATION
    return None


def _diagnose_training(context: LiveContext, observed: DropoutWeights) -> Mistake | None:
    rate = context.case.dropout
    if _is_exact(observed):
        return dropout_mistakes.NEVER if rate else None
    if not rate:
        return dropout_mistakes.NOT_ASKED_FOR if observed.factor is not None else None
    whole = _measure_whole_value_share(context)
    if whole is not None:
        return dropout_mistakes.NOT_ON_WEIGHTS if whole < RATE / 4 else None
    if observed.factor is None:
        return (
            _diagnose_rows(observed, rate)
            if observed.exact.shape[-1] == context.case.tokens
            else None
        )
    return _diagnose_factor(observed, observed.factor, rate) or _diagnose_shared_drops(observed)


def _diagnose_factor(observed: DropoutWeights, factor: float, rate: float) -> Mistake | None:
    share = float(observed.kept.double().mean())

    def like(number: float, probability: float) -> bool:
        # Thousands of tosses: a share is off by 0.1 in one of 10³⁰ runs.
        return abs(factor - number) < TOLERANCE and abs(share - probability) < 0.1

    keep = 1 - rate
    if like(1 / keep, keep):
        return None
    if like(1.0, keep):
        return dropout_mistakes.NOT_RESCALED
    if like(1 / rate, rate):
        return dropout_mistakes.KEEPS_P
    if like(1 / rate, keep):
        return dropout_mistakes.SCALED_BY_P
    if like(1 / keep**2, keep**2):
        return dropout_mistakes.TWICE
    if any(like(1 / (1 - other), 1 - other) for other in (0.1, 0.2, 0.5)):
        return dropout_mistakes.OTHER_RATE
    return None


def _diagnose_shared_drops(observed: DropoutWeights) -> Mistake | None:
    """Which weights share their fate."""
    alive = observed.used != 0
    hidden = ~observed.visible
    if bool((alive == alive[:1]).all()):
        return dropout_mistakes.SHARED_BY_BATCH
    if alive.shape[1] > 1 and bool((alive == alive[:, :1]).all()):
        return dropout_mistakes.SHARED_BY_HEADS
    rows = (alive | hidden).all(-1) | ~alive.any(-1)
    if bool(rows.all()):
        return dropout_mistakes.WHOLE_ROWS
    columns = (alive | hidden).all(-2) | ~alive.any(-2)
    return dropout_mistakes.WHOLE_KEYS if bool(columns.all()) else None


def _diagnose_rows(observed: DropoutWeights, rate: float) -> Mistake | None:
    """Rows that are what some choice of dropped elements makes of the exact ones."""
    ways: tuple[tuple[Mistake, RowVariants], ...] = (
        (dropout_mistakes.RENORMALISED, lambda exact, _: _renormalise(exact)),
        (dropout_mistakes.BEFORE_SOFTMAX, lambda _, scores: _drop_before_softmax(scores, rate)),
    )
    for each, way in ways:
        if all(
            _are_among(
                way(observed.exact[h, q, v], observed.scores[h, q, v]), observed.used[:, h, q, v]
            )
            for h, q, v in _iter_rows(observed.visible)
        ):
            return each
    return None


RowVariants = Callable[[Tensor, Tensor], Tensor]
"""What dropping may make of a row, from its exact weights and its scores: one row a choice."""


def _iter_rows(visible: Bool[Tensor, "heads q k"]) -> Iterator[tuple[int, int, Tensor]]:
    heads, queries, _ = visible.shape
    for h, q in itertools.product(range(heads), range(queries)):
        yield h, q, visible[h, q]


def _enumerate_choices(count: int) -> Float[Tensor, "choices {count}"]:
    """Every way to keep some of so many elements."""
    return torch.tensor(list(itertools.product((0.0, 1.0), repeat=count)), dtype=torch.float64)


def _renormalise(exact: Float[Tensor, "visible"]) -> Float[Tensor, "choices visible"]:
    kept = exact * _enumerate_choices(exact.shape[0])
    # A row of which nothing is left may be anything: zeros, or NaN made zeros.
    return kept / kept.sum(-1, keepdim=True).clamp_min(1e-12)


def _drop_before_softmax(
    scores: Float[Tensor, "visible"], rate: float
) -> Float[Tensor, "choices visible"]:
    return torch.softmax(scores * _enumerate_choices(scores.shape[0]) / (1 - rate), dim=-1)


def _are_among(
    known_rows: Float[Tensor, "choices visible"], rows: Float[Tensor, "batch visible"]
) -> bool:
    """Whether every row is one of those that are known, but for rows that are lost to NaN.

    Some must be left, and not all the same.
    """
    rows = rows[rows.isfinite().all(-1)]
    distance = (rows[:, None] - known_rows[None]).abs().amax(-1)
    return bool(rows.numel()) and bool((distance.amin(-1) <= TOLERANCE).all())


def _measure_whole_value_share(context: LiveContext) -> float | None:
    """The share of values that vanish as a whole, if there are some of which single coordinates do.

    With the same payload in all dimensions the coordinates of a head are equal, unless something
    other than weights is dropped. The first token has one weight: where weights are dropped, too,
    all its coordinates vanish at once.
    """
    columns = tomography.compute_payload_width(context.case)
    x = tomography.make_sequence(context.case, 0, columns).clone()
    x[..., -columns:] = 1
    # An instance of its own: nothing that an earlier call left behind has a part in this.
    alone = context.harness.create_context(context.case)
    shown = _run_heads(alone, x.expand(context.case.batch, -1, -1), training=True)[..., :columns]
    gone = shown[:, 0] == 0
    single = _is_random(gone) and bool((gone.any(-1) & ~gone.all(-1)).any())
    return float(gone.all(-1).double().mean()) if single else None


def _is_random(kept: Bool[Tensor, "batch *elements"]) -> bool:
    """Whether some element is kept in some copies and dropped in others."""
    return bool((kept.any(0) & ~kept.all(0)).any())
