"""Compare an answer with the expected one: first its form, then its values.

The message about a wrong value has the expected value with its tolerance, the value that was
returned, how many elements are off, and the place of the worst one.
"""

import math

import torch
from torch import Tensor

from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.counting import count_share
from headcheck.properties.violations.violation import Reason, Violation, ViolationKind


def assert_shape(got: Tensor, shape: tuple[int, ...], what: str = "output") -> None:
    """Raise Violation unless `got` has this shape."""
    if tuple(got.shape) != shape:
        came = tuple(got.shape)
        shapes = f"shape {tuple(shape)}", f"shape {came}"
        raise Violation(ViolationKind.SHAPE, *shapes, what, shapes=(tuple(shape), came))


def assert_finite(got: Tensor, what: str = "output", hint: str = "") -> None:
    """Raise Violation if there is a NaN or an infinity in `got`."""
    bad = ~torch.isfinite(got)
    if bool(bad.any()):
        where = _unravel_index(int(bad.flatten().to(torch.int8).argmax()), bad)
        raise Violation(
            ViolationKind.FINITE,
            "a finite number",
            f"{got[where].item()}; {_describe_count(bad)} not finite",
            _format_location(what, where),
            hint=hint,
            reason=Reason.NOT_A_NUMBER if bool(got[where].isnan()) else "",
        )


def check_close(got: Tensor, expected: Tensor, tolerance: Tolerance, what: str = "output") -> bool:
    """Return True if `got` is as exact as its dtype, False if it is only as exact as float32.

    Raises Violation if it is neither.
    """
    assert_shape(got, tuple(expected.shape), what)
    assert_finite(got, what)
    error = (got.to(torch.float64) - expected).abs()
    if tolerance.covers(error):
        return True
    off = error > tolerance.float32
    if bool(off.any()):
        excess = torch.where(off, error / tolerance.float32.clamp_min(1e-300), 0.0)
        where = _unravel_index(int(excess.argmax()), error)
        right, wrong = float(expected[where]), float(got[where])
        exact, came = format_distinct(right, wrong)
        raise Violation(
            ViolationKind.VALUE,
            f"{exact} ± {float(tolerance.float32[where]):.1g}",
            f"{came}; {_describe_count(off)} off",
            _format_location(what, where),
            difference=abs(right - wrong) / max(abs(right), abs(wrong)),
        )
    return False


def format_distinct(one: float, other: float) -> tuple[str, str]:
    """Format two numbers with at least six digits, or as many as show that they differ."""
    for digits in range(6, 18):
        shown = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if shown[0] != shown[1]:
            break
    return shown


def assert_differs(
    changed: Tensor, tolerance: Tolerance, expected: str, what: str = "output"
) -> None:
    """Raise Violation unless a required difference exceeds what rounding can explain."""
    if bool((changed.abs() > tolerance.float32).any()):
        return
    largest = float(changed.abs().max()) if changed.numel() else 0.0
    got = f"it changed by at most {largest:.3g}" if largest else "nothing changed"
    got = "it became nan" if math.isnan(largest) else got
    raise Violation(ViolationKind.VALUE, expected, got, "" if what == "output" else what)


def _unravel_index(flat: int, like: Tensor) -> tuple[int, ...]:
    """Return the index of an element. torch's own function imports sympy, which takes long."""
    return tuple(flat // math.prod(like.shape[n + 1 :]) % size for n, size in enumerate(like.shape))


def _format_location(what: str, where: tuple[int, ...]) -> str:
    """Put the index behind the noun: `output[0, 1] after a change`."""
    noun, space, rest = what.partition(" ")
    index = f"[{', '.join(str(i) for i in where)}]" if where else ""
    return f"{noun}{index}{space}{rest}"


def _describe_count(mask: Tensor) -> str:
    return count_share(int(mask.sum()), mask.numel(), "element")
