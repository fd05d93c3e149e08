"""Numbers in cells: as short as can be read."""

import math


def format_number(value: float | None, *, signed: bool = False) -> str:
    """A number in at most five characters or so; `NaN` for what is no finite number."""
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
    """Two numbers that are not equal, with as many digits as it takes to see that."""
    shown = format_number(one), format_number(other)
    for digits in range(3, 18):
        if shown[0] != shown[1]:
            break
        shown = f"{one:.{digits}g}".replace("-", "−"), f"{other:.{digits}g}".replace("-", "−")
    return shown


def format_row(values: tuple[float | None, ...]) -> str:
    """A row of numbers, as a sentence can hold it."""
    return " ".join(map(format_number, values))
