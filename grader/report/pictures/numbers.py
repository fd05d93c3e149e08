"""Numbers as short text, for cells and captions."""

import math


def format_number(value: float | None, *, signed: bool = False) -> str:
    """Format a number in about five characters; None, which stands for NaN or ∞, is `NaN`."""
    if value is None:
        return "NaN"
    sign = "−" if value < 0 else "+" if signed and value > 0 else ""
    return sign + _format_magnitude(abs(value))


def _format_magnitude(value: float) -> str:
    if not math.isfinite(value):
        return "∞"
    if value in (0, 1):
        return f"{value:g}"
    if 0.005 <= value < 10:
        return f"{value:.2f}"
    if 10 <= value < 1000:
        return f"{value:.0f}"
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def format_distinct(one: float, other: float) -> tuple[str, str]:
    """Format two different numbers with enough digits to show that they differ."""
    shown = format_number(one), format_number(other)
    for digits in range(3, 18):
        if _parse(shown[0]) != _parse(shown[1]):
            break
        shown = f"{one:.{digits}g}".replace("-", "−"), f"{other:.{digits}g}".replace("-", "−")
    return shown


def _parse(shown: str) -> float:
    return math.inf if "∞" in shown else float(shown.replace("−", "-"))


def format_row(values: tuple[float | None, ...]) -> str:
    """Format a row of numbers for a sentence."""
    return " ".join(map(format_number, values))
