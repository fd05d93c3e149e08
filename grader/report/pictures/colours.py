"""Colour scales for numbers that remain distinguishable with colour blindness.

The scales are straight lines in Oklab between a few fixed colours. Lightness falls evenly along the
sequential scale, and along each half of the diverging one. Their hues are blue and yellow, and blue
and orange, which remain distinct in the common kinds of colour blindness. Every cell also holds its
number.

Source: Björn Ottosson 2020, "A perceptual color space for image processing".
"""

from functools import cache

Lab = tuple[float, float, float]

SEQUENTIAL_LOW: Lab = (0.97, -0.01, 0.045)
SEQUENTIAL_HIGH: Lab = (0.32, 0.0, -0.115)
"""the upper end of the scale from pale yellow to dark blue"""
DIVERGING_LOW: Lab = (0.45, -0.02, -0.14)
DIVERGING_MID: Lab = (0.975, 0.0, 0.005)
DIVERGING_HIGH: Lab = (0.56, 0.09, 0.11)
"""the upper end of the scale from blue through nearly white to orange"""
STEPS = 200
NAN_COLOUR = "#8a8a8a"
"""the colour of cells with NaN and infinities"""
CATEGORICAL = ("#bfe1f5", "#f7e6a4", "#e9c8dd", "#cfe8cf", "#e3dccf", "#d5d5ea")
"""pale colours for unordered categories; each cell also has a label"""


def sequential(share: float) -> str:
    """Return the colour of a number between 0 and 1."""
    return _mix(SEQUENTIAL_LOW, SEQUENTIAL_HIGH, round(min(max(share, 0.0), 1.0) * STEPS))


def diverging(share: float) -> str:
    """Return the colour of a number between -1 and 1: blue below 0, orange above."""
    end = DIVERGING_HIGH if share > 0 else DIVERGING_LOW
    return _mix(DIVERGING_MID, end, round(min(abs(share), 1.0) * STEPS))


def choose_text_colour(colour: str) -> str:
    """Return black or white, whichever contrasts more with a colour."""
    return "#000" if compute_luminance(colour) > 0.179 else "#fff"


def compute_luminance(colour: str) -> float:
    """Compute the relative luminance of WCAG 2: 0 for black, 1 for white."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@cache
def _mix(one: Lab, other: Lab, step: int) -> str:
    """Mix two colours in Oklab, and convert the result to sRGB by Ottosson's matrices."""
    lightness, a, b = (x + step / STEPS * (y - x) for x, y in zip(one, other, strict=True))
    long, middle, short = (
        (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3,
        (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3,
        (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3,
    )
    linear = (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _gamma(min(max(c, 0.0), 1.0))):02x}" for c in linear)


def _gamma(channel: float) -> float:
    return 12.92 * channel if channel <= 0.0031308 else 1.055 * channel ** (1 / 2.4) - 0.055
