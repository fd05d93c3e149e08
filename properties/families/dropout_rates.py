"""Rates of dropped weights, and how probable counts of them are.

A check of a count fails if, by Chernoff's bound n KL(k/n ‖ p), a correct module would give such a
count with probability below 10⁻¹⁰. A module is subject to fewer than ten such checks, so a correct
module fails with probability below 10⁻⁹, whatever the number of samples. The share of dropped
weights is counted over at least 120,000 weights: a rate that is off by 0.02 is missed with
probability below 10⁻¹⁵. Of a slow module fewer weights are counted, so smaller mistakes are missed.
"""

import math

import torch
from torch import Tensor

from headcheck.properties.families.dropped_weights import DropoutObservation
from headcheck.properties.harness.case_context import CaseContext

FALSE_POSITIVE_RATE = 1e-10


def is_improbable(successes: int, samples: int, probability: float) -> bool:
    """Return whether a count is too improbable, by Chernoff's two-sided bound."""
    if not 0 < probability < 1:
        return successes != round(samples * probability)
    return bool(compute_log_chance(successes, samples, probability) < math.log(FALSE_POSITIVE_RATE))


def compute_log_chance(
    successes: Tensor | int, samples: Tensor | int, probability: float
) -> Tensor:
    """Bound the log-probability of counts at least as far off (Chernoff, two-sided)."""
    counts, total = torch.as_tensor(successes).double(), torch.as_tensor(samples).double()
    share = counts / total.clamp_min(1)
    chances = torch.tensor([probability, 1 - probability]).double()
    shares = torch.stack([share, 1 - share], dim=-1)
    divergence = (torch.xlogy(shares, shares) - shares * chances.log()).sum(-1)
    return math.log(2) - total * divergence


def estimate_second_keep_rate(context: CaseContext, observation: DropoutObservation) -> float:
    """Return the share that a second dropout of single coordinates keeps; 1 without one.

    It can only be estimated where the weights are dropped correctly: then all kept numbers have one
    factor, from which the rate follows.
    """
    rows = observation.vanished_rows
    if not observation.has_partial_rows:
        return 1.0
    share = 1 / (observation.usual_ratio * (1 - context.case.dropout))
    if not 0 < share < 1:
        return 1.0
    whole = compute_whole_value_rate(context, share)
    return 1.0 if is_improbable(int(rows.sum()), rows.numel(), whole) else share


def compute_whole_value_rate(context: CaseContext, share: float) -> float:
    """Return the probability that a whole value vanishes if this share of coordinates is kept."""
    rate = context.case.dropout
    return rate + (1 - rate) * (1 - share) ** context.case.head_dim


def compute_effective_rate(
    context: CaseContext, observation: DropoutObservation
) -> tuple[float, float]:
    """Return the observed rate and factor, which include the effects of a second dropout."""
    keep = (1 - context.case.dropout) * estimate_second_keep_rate(context, observation)
    return 1 - keep, 1 / keep


def compute_chance_of_two(rate: float) -> float:
    """Return the probability that two weights are both dropped or both kept."""
    return rate**2 + (1 - rate) ** 2
