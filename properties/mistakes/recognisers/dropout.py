"""Recognise a mistake in dropout by the factors by which it multiplies attention weights.

The weights are recovered (`properties.harness.tomography`) once in evaluation and once in training,
from many copies of one sequence. Each recovered weight is 0, the exact weight times a common
factor, or something else. The factor, and the sets of weights that are 0 together, identify the
mistake. A mistake is named only if all weights agree with it. The copies give thousands of samples,
so the probability that weights are always 0 together by chance is below 10⁻³⁰.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.harness import tomography
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import construct
from headcheck.properties.mistakes.catalogue import Mistake
from headcheck.properties.mistakes.catalogue import dropout as dropout_mistakes
from headcheck.properties.mistakes.recognisers.answers import Answers
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.case import Case

COPIES = 128
RATE = 0.3
CASE = Case(
    batch=COPIES, tokens=4, context_length=4, d_in=12, heads=2, head_dim=6, group=1, dropout=RATE,
    seed=2011,
)  # fmt: skip
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class DropoutWeights:
    """The exact weights, and those that were used for many copies of one sequence.

    If a head is narrower than the sequence is long, only the weights of the first keys are visible.
    """

    exact: Float[Tensor, "heads q k"]
    scores: Float[Tensor, "heads q k"]
    used: Float[Tensor, "batch heads q k"]

    @property
    def visible(self) -> Bool[Tensor, "heads q k"]:
        """Which weights can be dropped: the weights that are not hidden."""
        return self.exact > 0

    @property
    def kept(self) -> Bool[Tensor, "batch visible"]:
        """Which visible weights are not zero."""
        return self.used[:, self.visible] != 0

    @property
    def factor(self) -> float | None:
        """The factor that all kept weights share, if there is one."""
        ratio = (self.used[:, self.visible] / self.exact[self.visible])[self.kept]
        if not ratio.numel():
            return None
        spread = ratio.max() - ratio.min()
        return float(ratio[0]) if bool(spread <= TOLERANCE * ratio.abs().max()) else None


def recognise_dropout(answers: Answers) -> tuple[DiagnosedMistake, ...]:
    """Name the mistake in dropout, if everything else is correct."""
    contract = answers.contract
    if not contract.has(*tomography.REQUIRED_CAPABILITIES, Capability.MODULE, Capability.BATCH):
        return ()
    case = contract.fit(replace(CASE, device=answers.device))
    mistake = _find_mistake(answers.harness.create_context(case))
    return () if mistake is None else (DiagnosedMistake(mistake, 2, 2),)


def _find_mistake(context: LiveContext) -> Mistake | None:
    evaluated = _recover_dropout_weights(context, training=False)
    mistake = _diagnose_evaluation(evaluated, context.case.dropout)
    if mistake is not None or not _is_exact(evaluated):
        return mistake
    return _diagnose_training(context, _recover_dropout_weights(context, training=True))


def _recover_dropout_weights(
    context: LiveContext, training: bool, grad: str = "no_grad"
) -> DropoutWeights:
    case = context.case
    columns = tomography.compute_payload_width(case)
    parameters = tomography.make_routing_parameters(context)
    x = tomography.make_sequence(case, 0, columns)
    exact = context.compute_expected(x, parameters, mask=None).exact
    outputs = _run_heads(context, x.expand(case.batch, -1, -1), training, grad)
    used = outputs[..., :columns].permute(0, 2, 1, 3)[..., : case.tokens]
    observed = used.shape[-1]
    return DropoutWeights(exact.weights[0, ..., :observed], exact.scores[0, ..., :observed], used)


def _run_heads(context: LiveContext, x: Tensor, training: bool, grad: str = "no_grad") -> Tensor:
    """Return the output of every head of a new module: batch tokens heads head_dim.

    The module is new because a call in evaluation may switch dropout off for good.
    """
    parameters = tomography.make_routing_parameters(context)
    adapter = construct(context.harness.subject, context.contract, context.case)
    adapter.set(parameters)
    options = CallOptions(training=training, seed=context.case.seed, grad=grad)
    output = context.run_module(
        x.contiguous(), parameters, mask=None, options=options, adapter=adapter
    )[0]
    heads: Tensor = output.unflatten(-1, (context.case.heads, context.case.head_dim))
    return heads


def _is_exact(weights: DropoutWeights) -> bool:
    return bool(((weights.used - weights.exact).abs() <= TOLERANCE).all())


def _diagnose_evaluation(observed: DropoutWeights, rate: float) -> Mistake | None:
    factor, kept = observed.factor, observed.kept
    if factor is None:
        return None
    if not bool(kept.all()):
        asked = dropout_mistakes.IN_EVALUATION if rate else dropout_mistakes.NOT_ASKED_FOR
        return asked if _is_random(kept) else None
    if rate and abs(factor - (1 - rate)) < TOLERANCE:
        return dropout_mistakes.SCALED_IN_EVALUATION
    return None


def _diagnose_training(context: LiveContext, observed: DropoutWeights) -> Mistake | None:
    rate = context.case.dropout
    if _is_exact(observed):
        never = rate and _is_exact(_recover_dropout_weights(context, training=True, grad="grad"))
        return dropout_mistakes.NEVER if never else None
    if not rate:
        return dropout_mistakes.NOT_ASKED_FOR if observed.factor is not None else None
    whole = _measure_whole_value_share(context)
    if whole is not None:
        return dropout_mistakes.NOT_ON_WEIGHTS if whole < RATE / 4 else None
    if observed.factor is None:
        whole_rows_visible = observed.exact.shape[-1] == context.case.tokens
        return _diagnose_rows(observed, rate) if whole_rows_visible else None
    return _diagnose_factor(observed, observed.factor, rate) or _diagnose_shared_drops(observed)


def _diagnose_factor(observed: DropoutWeights, factor: float, rate: float) -> Mistake | None:
    """Return the mistake that multiplies by this factor, and keeps as large a share of weights."""
    share = float(observed.kept.double().mean())
    keep = 1 - rate
    known: tuple[tuple[Mistake | None, float, float], ...] = (
        (None, 1 / keep, keep),
        (dropout_mistakes.NOT_RESCALED, 1.0, keep),
        (dropout_mistakes.KEEPS_P, 1 / rate, rate),
        (dropout_mistakes.SCALED_BY_P, 1 / rate, keep),
        (dropout_mistakes.TWICE, 1 / keep**2, keep**2),
        *((dropout_mistakes.OTHER_RATE, 1 / other, other) for other in (0.9, 0.8, 0.5)),
    )
    # With thousands of samples, a share is off by 0.1 in one of 10³⁰ runs.
    return next(
        (
            mistake
            for mistake, multiplied, kept in known
            if abs(factor - multiplied) < TOLERANCE and abs(share - kept) < 0.1
        ),
        None,
    )


def _diagnose_shared_drops(observed: DropoutWeights) -> Mistake | None:
    """Return the mistake for weights that are always dropped together, if there are any."""
    kept = observed.used != 0
    hidden = ~observed.visible
    if bool((kept == kept[:1]).all()):
        return dropout_mistakes.SHARED_BY_BATCH
    if kept.shape[1] > 1 and bool((kept == kept[:, :1]).all()):
        return dropout_mistakes.SHARED_BY_HEADS
    rows = (kept | hidden).all(-1) | ~kept.any(-1)
    if bool(rows.all()):
        return dropout_mistakes.WHOLE_ROWS
    columns = (kept | hidden).all(-2) | ~kept.any(-2)
    return dropout_mistakes.WHOLE_KEYS if bool(columns.all()) else None


def _diagnose_rows(observed: DropoutWeights, rate: float) -> Mistake | None:
    """Return the mistake that turns the exact rows into the observed ones by dropping elements."""
    variants: tuple[tuple[Mistake, RowVariants], ...] = (
        (dropout_mistakes.RENORMALISED, lambda exact, _: _renormalise(exact)),
        (dropout_mistakes.BEFORE_SOFTMAX, lambda _, scores: _drop_before_softmax(scores, rate)),
    )
    heads, queries, _ = observed.visible.shape
    rows = [
        (h, q, observed.visible[h, q]) for h, q in itertools.product(range(heads), range(queries))
    ]
    for mistake, make_rows in variants:
        if all(
            _are_among(make_rows(observed.exact[row], observed.scores[row]), observed.used[:, *row])
            for row in rows
        ):
            return mistake
    return None


RowVariants = Callable[[Tensor, Tensor], Tensor]
"""Returns all rows that dropping can make of one row, from its exact weights and its scores."""


def _enumerate_choices(count: int) -> Float[Tensor, "choices {count}"]:
    """Return every choice of elements to keep, as rows of zeros and ones."""
    return torch.tensor(list(itertools.product((0.0, 1.0), repeat=count)), dtype=torch.float64)


def _renormalise(exact: Float[Tensor, "visible"]) -> Float[Tensor, "choices visible"]:
    kept = exact * _enumerate_choices(exact.shape[0])
    # A row of which everything is dropped may be zeros, or NaN replaced by zeros.
    return kept / kept.sum(-1, keepdim=True).clamp_min(1e-12)


def _drop_before_softmax(
    scores: Float[Tensor, "visible"], rate: float
) -> Float[Tensor, "choices visible"]:
    return torch.softmax(scores * _enumerate_choices(scores.shape[0]) / (1 - rate), dim=-1)


def _are_among(
    known_rows: Float[Tensor, "choices visible"], rows: Float[Tensor, "batch visible"]
) -> bool:
    """Whether there are rows without NaN, and all of them are among the known rows."""
    rows = rows[rows.isfinite().all(-1)]
    distance = (rows[:, None] - known_rows[None]).abs().amax(-1)
    return bool(rows.numel()) and bool((distance.amin(-1) <= TOLERANCE).all())


def _measure_whole_value_share(context: LiveContext) -> float | None:
    """Return the share of values that are completely zero; None if none is only partly zero.

    With the same payload in all dimensions, the coordinates of a head are equal unless something
    other than weights is dropped. The first token has a single weight, so all its coordinates are 0
    together if that weight is dropped.
    """
    columns = tomography.compute_payload_width(context.case)
    x = tomography.make_sequence(context.case, 0, columns).clone()
    x[..., -columns:] = 1
    # A freshly built module, so that nothing left behind by an earlier call matters.
    fresh = context.harness.create_context(context.case)
    outputs = _run_heads(fresh, x.expand(context.case.batch, -1, -1), training=True)[..., :columns]
    dropped = outputs[:, 0] == 0
    partial = _is_random(dropped) and bool((dropped.any(-1) & ~dropped.all(-1)).any())
    return float(dropped.all(-1).double().mean()) if partial else None


def _is_random(kept: Bool[Tensor, "batch *elements"]) -> bool:
    """Whether some element is kept in some copies and dropped in others."""
    return bool((kept.any(0) & ~kept.all(0)).any())
