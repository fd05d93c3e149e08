"""Whether windows of an image, which may be shifted, attend as they should.

A class that cuts images into windows is matched where each image is one window. Here an image has
four, so it shows how they are cut. With a shift the image is rolled, so some windows join what
stood at opposite ends of it; within a window only what belongs together attends to each other. Each
pixel is changed in turn, and what changes with it is compared: the equation is not needed.

Source: Liu et al. 2021, Swin Transformer, section 3.2 (arXiv:2103.14030).
"""

import functools
import re
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.grader.grading.claims import Claim, JudgedClaim
from headcheck.grader.grading.questions import FurtherQuestion
from headcheck.properties.binding.bench import Bench
from headcheck.properties.binding.signature import Signature
from headcheck.properties.cases.case_tensors import make_tokens
from headcheck.properties.contracts.contract import CONSTANT, Argument, Contract
from headcheck.properties.terms.call_form import TokenAxes
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.group import PropertyGroup

SHIFT = re.compile(r"(cyclic_|window_)?shift(s|ed|_size|_by)?|ss", re.IGNORECASE)
"""names of the argument of a constructor that shifts windows"""
CASE = Case(batch=1, tokens=16, context_length=16, d_in=12, heads=2, head_dim=6, seed=17)
"""a window, whose side is 4"""
SIDE = 2 * CASE.side
"""the side of an image of four windows"""
SMALLEST = 1e-5
"""the smallest change that counts, as a share of the largest output: above the noise of float32"""
WINDOWS = Claim(
    "pixels_attend_within_their_windows",
    "Every pixel attends to its window; where windows are shifted, to its region of a window.",
    PropertyGroup.MASK,
)


def find_windows(signature: Signature, contract: Contract) -> FurtherQuestion | None:
    """Return the question whether images are cut rightly; None if there are no windows."""
    if contract.call_form.axes is not TokenAxes.WINDOW:
        return None
    option = next((p for p in signature.constructor if SHIFT.fullmatch(p.name)), None)
    by = CASE.side // 2 if option else 0
    said = f"judged for an image of {SIDE} by {SIDE} pixels, too, in windows of side {CASE.side}"
    arguments = [
        replace(a, quantity=CONSTANT, default=(SIDE, SIDE)) if a.quantity == "sides" else a
        for a in contract.arguments
    ]
    if option:
        given = True if isinstance(option.default, bool) else by
        arguments.append(Argument(option.name, CONSTANT, default=given))
        said += f", with its `{option.name}`: they are shifted by {by}"
    own = replace(contract, arguments=tuple(arguments))
    return FurtherQuestion(own, CASE, functools.partial(_judge, by=by), said)


def _judge(bench: Bench, by: int) -> JudgedClaim:
    """Return whether each pixel changes what belongs to it."""
    pixels = SIDE**2
    sizes = replace(bench.case, tokens=pixels, context_length=pixels)
    image = make_tokens(sizes, bench.contract)
    changed = image + torch.eye(pixels, dtype=image.dtype)[:, :, None]
    given = torch.cat([image, changed])
    form = bench.contract.call_form
    if error := bench.find_error(form, given):
        return JudgedClaim(WINDOWS, "an output for an image of four windows", f"it raises {error}")
    output = bench.call(form, given)[0]
    if output.shape[:2] != given.shape[:2]:
        shapes = "an image of the same shape", f"{tuple(output.shape[1:])} for {pixels} pixels"
        return JudgedClaim(WINDOWS, *shapes)
    change = (output[1:] - output[:1]).abs().amax(dim=-1)
    return _compare(change > SMALLEST * output.abs().max(), by)


def _compare(touched: Tensor, by: int) -> JudgedClaim:
    """Return whether each pixel (row) changes its region (columns); images roll either way."""
    if any(torch.equal(touched, _relate(way)) for way in (by, -by)):
        return JudgedClaim(WINDOWS)
    told = {
        "pixels of opposite ends of the image attend to each other": (0, _relate(by, apart=False)),
        "it is not rolled back": (by, _relate(by)),
        "it is rolled in the same direction again": (2 * by, _relate(by)),
    }
    found = (said for said, (n, own) in told.items() if torch.equal(_roll(touched, n), own))
    expected = "each pixel changes the pixels of its window" + (
        " and region, and the image is rolled back" if by else ""
    )
    return JudgedClaim(WINDOWS, expected, next(found, "it changes others, or not all of these"))


def _relate(by: int, *, apart: bool = True) -> Tensor:
    """Return which pixels belong together if an image is rolled up and to the left.

    Unless they are kept apart, pixels that a roll joins belong together, too.
    """
    moved = torch.arange(SIDE) - by
    at = moved % SIDE
    place = 2 * (at // CASE.side) + (at != moved) * apart
    label = (place[:, None] * 2 * SIDE + place).flatten()
    return label[:, None] == label


def _roll(touched: Tensor, by: int) -> Tensor:
    """Return what is touched, with each image rolled down and to the right."""
    rolled: Tensor = touched.unflatten(1, (SIDE, SIDE)).roll((by, by), (1, 2)).flatten(1)
    return rolled
