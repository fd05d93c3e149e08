"""Compare what came back with what must come back: kind before value, in this one module.

An element of a wrong value says its expected value and tolerance, what came instead, how many
elements are off, and where the worst one is.
"""

import math

import torch
from torch import Tensor

from properties.tolerance import Tolerance
from properties.violation import Violation, ViolationKind


def assert_shape(got: Tensor, shape: tuple[int, ...], what: str = "output") -> None:
    """Raises Violation unless `got` has this shape."""
    if tuple(got.shape) != shape:
        raise Violation(
            ViolationKind.SHAPE,
            f"shape {_format_shape(shape)}",
            f"shape {_format_shape(got.shape)}",
            what,
        )


def assert_finite(got: Tensor, what: str = "output") -> None:
    """Raises Violation if there is a NaN or an infinity in `got`."""
    bad = ~torch.isfinite(got)
    if bool(bad.any()):
        where = _find_first(bad)
        raise Violation(
            ViolationKind.FINITE,
            "a finite number",
            f"{got[where].item()}; {_describe_count(bad)} are not finite",
            _format_location(what, where),
        )


def check_close(got: Tensor, expected: Tensor, tolerance: Tolerance, what: str = "output") -> bool:
    """Whether `got` is as exact as its dtype allows; False if only as exact as float32 allows.

    Raises Violation when it is neither.
    """
    assert_shape(got, tuple(expected.shape), what)
    assert_finite(got, what)
    error = (got.to(torch.float64) - expected).abs()
    off = error > tolerance.float32
    if bool(off.any()):
        excess = torch.where(off, error / tolerance.float32.clamp_min(1e-300), 0.0)
        where = _unravel_index(int(excess.argmax()), error)
        wanted, came = format_distinct(float(expected[where]), float(got[where]))
        raise Violation(
            ViolationKind.VALUE,
            f"{wanted} ± {_get_limit(tolerance, where):.1g}",
            f"{came}; {_describe_count(off)} are off",
            _format_location(what, where),
        )
    return not bool((error > tolerance.exact).any())


def format_distinct(one: float, other: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see that they differ, and at least six."""
    for digits in range(6, 18):
        shown = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if shown[0] != shown[1]:
            break
    return shown


def assert_differs(
    changed: Tensor, tolerance: Tolerance, expected: str, what: str = "output"
) -> None:
    """Raises Violation where a difference that must be there is lost in the rounding."""
    if not bool((changed.abs() > tolerance.float32).any()):
        largest = float(changed.abs().max()) if changed.numel() else 0.0
        raise Violation(ViolationKind.VALUE, expected, _describe_change(largest), what)


def _describe_change(largest: float) -> str:
    if math.isnan(largest):
        return "it became nan"
    return f"it changed by at most {largest:.3g}" if largest else "nothing changed"


def _get_limit(tolerance: Tolerance, where: tuple[int, ...]) -> float:
    return float(tolerance.float32[where])


def _format_shape(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"


def _unravel_index(flat: int, like: Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), like.shape))


def _find_first(mask: Tensor) -> tuple[int, ...]:
    return _unravel_index(int(mask.flatten().to(torch.int8).argmax()), mask)


def _format_location(what: str, where: tuple[int, ...]) -> str:
    """`output after a change` at (0, 1) is `output[0, 1] after a change`."""
    noun, space, rest = what.partition(" ")
    index = f"[{', '.join(str(i) for i in where)}]" if where else ""
    return f"{noun}{index}{space}{rest}"


def _describe_count(mask: Tensor) -> str:
    return f"{int(mask.sum())} of {mask.numel()} elements"
