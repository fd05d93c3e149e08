"""Counts of dropped weights: an honest module is never accused, a wrong rate is never missed.

`improbable` rests on Chernoff's bound. Here the exact binomial tails, as sums of integers, show
that the bound holds, how often it accuses by chance, and how small a fault it still sees.
"""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headcheck.properties.families.dropout_rates import FALSE_POSITIVE_RATE, is_improbable
from headcheck.properties.families.dropped_weights import SAMPLES

RATES = (0.05, 0.1, 0.3, 0.5, 0.51, 0.9)
SHORT = (1, 2, 10, 37, 200)


def exact_tails(tosses: int, rate: Fraction) -> list[Fraction]:
    """P(X = k) for k = 0..tosses, exactly."""
    hit, miss, whole = rate.numerator, rate.denominator - rate.numerator, rate.denominator
    return [
        Fraction(math.comb(tosses, k) * hit**k * miss ** (tosses - k), whole**tosses)
        for k in range(tosses + 1)
    ]


def log_probability(k: int, tosses: int, rate: float) -> float:
    """ln P(X = k), for numbers of tosses whose integers would not fit."""
    chosen = math.lgamma(tosses + 1) - math.lgamma(k + 1) - math.lgamma(tosses - k + 1)
    return chosen + k * math.log(rate) + (tosses - k) * math.log1p(-rate)


def chernoff(k: int, tosses: int, rate: float) -> float:
    share = k / tosses
    pairs = ((share, rate), (1 - share, 1 - rate))
    return math.exp(-tosses * sum(a * math.log(a / b) for a, b in pairs if a > 0))


def accepted(tosses: int, rate: float) -> tuple[int, int]:
    """The first and the last count that is not called improbable; between them none is."""
    middle = round(tosses * rate)

    def edge(outside: int, inside: int) -> int:
        while abs(outside - inside) > 1:
            half = (outside + inside) // 2
            outside, inside = (
                (half, inside) if is_improbable(half, tosses, rate) else (outside, half)
            )
        return inside

    return edge(-1, middle), edge(tosses + 1, middle)


@pytest.mark.parametrize(
    "rate", [Fraction(1, 20), Fraction(3, 10), Fraction(1, 2), Fraction(9, 10)]
)
@pytest.mark.parametrize("tosses", SHORT)
def test_chernoff_s_bound_is_above_the_exact_tail(tosses: int, rate: Fraction) -> None:
    tails = exact_tails(tosses, rate)
    assert sum(tails) == 1
    for k in range(tosses + 1):
        tail = sum(tails[k:]) if k >= tosses * rate else sum(tails[: k + 1])
        assert float(tail) <= chernoff(k, tosses, float(rate)) * (1 + 1e-9)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("tosses", SHORT)
def test_few_samples_give_no_false_alarm(tosses: int, rate: float) -> None:
    exact = exact_tails(tosses, Fraction(rate))
    accused = [k for k in range(tosses + 1) if is_improbable(k, tosses, rate)]
    assert float(sum(exact[k] for k in accused)) <= FALSE_POSITIVE_RATE


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("tosses", [2_000, 20_000, SAMPLES, 2 * SAMPLES])
def test_correct_rate_fails_once_in_ten_billion_at_most(tosses: int, rate: float) -> None:
    low, high = accepted(tosses, rate)
    assert low <= tosses * rate <= high
    # Beyond twenty times the accepted distance nothing is left that a float could hold.
    reach = 20 * (high - low)
    below, above = max(0, low - reach), min(tosses, high + reach)
    outside = [*range(below, low), *range(high + 1, above + 1)]
    chance = math.fsum(math.exp(log_probability(k, tosses, rate)) for k in outside)
    assert chance <= FALSE_POSITIVE_RATE
    # Nor is it so patient as to be blind: within a factor of 1000 of what is allowed.
    assert chance >= FALSE_POSITIVE_RATE / 1000


def missed(rate: float, true: float) -> float:
    """The probability that the counts of a module with another rate pass."""
    low, high = accepted(SAMPLES, rate)
    return math.fsum(math.exp(log_probability(k, SAMPLES, true)) for k in range(low, high + 1))


@pytest.mark.parametrize("rate", RATES)
def test_a_rate_off_by_two_hundredths_is_seen(rate: float) -> None:
    # The share of dropped weights is counted at a rate of 0.3, elsewhere at one near 0.5.
    limit = 1e-15 if rate == 0.3 else 1e-11
    for off in (-0.02, 0.02):
        assert missed(rate, rate + off) <= limit
        assert missed(rate, rate + 2 * off) <= 1e-15


def test_a_rate_off_by_one_hundredth_is_at_the_edge_of_what_is_seen() -> None:
    # At one half it is 6.9 standard deviations, and 6.9 are needed for an accusation.
    assert missed(0.1, 0.11) < 1e-5
    assert 0.2 < missed(0.3, 0.31) < 0.3
    assert 0.4 < missed(0.5, 0.51) < 0.5


@pytest.mark.parametrize("rate", RATES)
def test_the_accepted_counts_are_an_interval_around_the_expected_one(rate: float) -> None:
    low, high = accepted(SAMPLES, rate)
    counts = [round(SAMPLES * i / 400) for i in range(401)]
    for k in [*counts, low - 1, low, high, high + 1]:
        assert is_improbable(k, SAMPLES, rate) is not (low <= k <= high), k
    assert max(high / SAMPLES - rate, rate - low / SAMPLES) < 0.01


@given(st.integers(0, 2**32 - 1), st.sampled_from(RATES))
def test_true_bernoulli_samples_pass(seed: int, rate: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    hits = int((torch.rand(SAMPLES, generator=generator) < rate).sum())
    assert not is_improbable(hits, SAMPLES, rate)


@pytest.mark.parametrize("tosses", [1, 10, SAMPLES])
def test_certainties_allow_no_exception(tosses: int) -> None:
    assert not is_improbable(0, tosses, 0.0)
    assert not is_improbable(tosses, tosses, 1.0)
    assert is_improbable(1, tosses, 0.0)
    assert is_improbable(tosses - 1, tosses, 1.0)


def test_counts_at_the_ends_are_no_fault_of_arithmetic() -> None:
    assert is_improbable(0, SAMPLES, 0.3)
    assert is_improbable(SAMPLES, SAMPLES, 0.3)
    assert not is_improbable(0, 1, 0.3)
    assert not is_improbable(1, 1, 0.3)
