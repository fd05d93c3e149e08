"""Round points by one rule, so that terminals, pages and gradebooks show the same number.

A score is rounded once, when it is added up. After that, displays and sums use hundredths.
"""

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal

DECIMALS = 2
"""the number of decimals of every score"""
HUNDREDTH = 0.01
"""the step that scores are rounded to, unless a course has its own"""
NOISE_DECIMALS = 6
"""the number of decimals kept from a sum of floats; the rest is rounding noise"""


def explain_bad_step(step: float) -> str | None:
    """Say why scores cannot be rounded to a step; None if they can."""
    hundredths = step / HUNDREDTH
    if 1 - 1e-6 <= hundredths <= 1e6 and abs(hundredths - round(hundredths)) < 1e-6:
        return None
    return f"scores are rounded to hundredths of a point or multiples of them, not to {step:g}"


def round_points(points: float, most: float, step: float = HUNDREDTH) -> float:
    """Return points out of a maximum, rounded to the nearest multiple of a step, halves up.

    Rounding never raises a score to the maximum, and full points stay the maximum, for any step.
    """
    exact, unit = _drop_noise(points), _drop_noise(step)
    top = _drop_noise(most)
    if exact >= top:
        return round_sum(most)
    steps = (exact / unit).to_integral_value(ROUND_HALF_UP)
    below = (top / unit).to_integral_value(ROUND_CEILING) - 1
    return float(min(steps, below) * unit)


def round_sum(points: float) -> float:
    """Round points that have no maximum to hundredths: a maximum itself, or a person's decision."""
    return float(_drop_noise(points).quantize(Decimal(10) ** -DECIMALS, ROUND_HALF_UP))


def split_total(total: float, checks: float, marks: float) -> tuple[float, float]:
    """Return the factors that make parts of a total of the points of checks and of marks.

    The part of the checks is rounded to hundredths, so both parts add up to the total.
    """
    part = round_sum(total * checks / (checks + marks)) if checks else 0.0
    factor = part / checks if checks else 1.0
    return factor, (total - part) / marks if marks else factor


def _drop_noise(value: float) -> Decimal:
    return Decimal(f"{value:.{NOISE_DECIMALS}f}")


def format_number(points: float) -> str:
    """Format points in the usual way: without an exponent or unnecessary zeros."""
    text = f"{round_sum(points):.{DECIMALS}f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0") else text


def share_out(points: Sequence[float], total: float) -> list[float]:
    """Return points in hundredths that add up to a rounded total, proportional to `points`."""
    whole = sum(points)
    shares, given, reached = [], 0.0, 0.0
    for each in points:
        reached += each
        upto = round_sum(total * reached / whole) if whole else 0.0
        shares.append(round_sum(upto - given))
        given = upto
    return shares
