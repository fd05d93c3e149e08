"""Whether windows of an image that are shifted attend as they should.

A class that cuts images into windows is judged without a shift. With one, its windows lie across
the borders of those: the image is rolled, so some windows join what stood at opposite ends of it.
Within a window only what belongs together attends to each other.

Source: Liu et al. 2021, Swin Transformer, section 3.2 (arXiv:2103.14030).
"""

import functools
import re
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.grader.grading.claims import Claim, JudgedClaim
from headcheck.grader.grading.questions import FurtherQuestion
from headcheck.grader.sandbox.worker.token_axes import cut_windows, lay_windows
from headcheck.properties.binding.bench import Bench, is_close
from headcheck.properties.binding.signature import Signature
from headcheck.properties.contracts.contract import CONSTANT, Argument, Contract
from headcheck.properties.terms.call_form import TokenAxes
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.group import PropertyGroup

SHIFT = re.compile(r"(cyclic_|window_)?shift(s|ed|_size|_by)?|ss", re.IGNORECASE)
"""names of the argument of a constructor that shifts windows"""
CASE = Case(
    batch=6, tokens=16, context_length=16, d_in=12, heads=2, head_dim=6, sharpness=2, seed=17
)
"""two images of three windows, whose side is 4"""
WINDOWS_OF_IMAGE = 3
OF_IMAGES = (TokenAxes.WINDOWS, TokenAxes.ONE_WINDOW)
SHIFTED = Claim(
    "shifted_windows_attend_within_regions",
    "Windows that are shifted attend within what belongs together, and are shifted back.",
    PropertyGroup.MASK,
)


def find_shift(signature: Signature, contract: Contract) -> FurtherQuestion | None:
    """Return the question whether windows are shifted rightly; None if they cannot be shifted."""
    option = next((p for p in signature.constructor if SHIFT.fullmatch(p.name)), None)
    if option is None or contract.call_form.axes not in OF_IMAGES:
        return None
    by = CASE.side // 2
    given = True if isinstance(option.default, bool) else by
    shifted = _shift(contract, Argument(option.name, CONSTANT, default=given))
    said = f"judged with its `{option.name}`, too: the windows of two images, shifted by {by}"
    return FurtherQuestion(shifted, CASE, functools.partial(_judge, by=by), said)


def _shift(contract: Contract, shift: Argument) -> Contract:
    """Return the contract with windows that are shifted, of which an image has several."""
    sizes = CASE.side, CASE.side * WINDOWS_OF_IMAGE
    arguments = (
        replace(a, quantity=CONSTANT, default=sizes) if a.quantity == "sides" else a
        for a in contract.arguments
    )
    form = replace(contract.call_form, axes=TokenAxes.WINDOWS)
    return replace(contract, arguments=(*arguments, shift), call_form=form)


def _judge(bench: Bench, by: int) -> JudgedClaim:
    """Return whether windows that are shifted attend as they should."""
    form, rolled = bench.contract.call_form, _roll(bench.x, by)
    if error := bench.find_error(form, rolled):
        return JudgedClaim(SHIFTED, "an output for windows that are shifted", f"it raises {error}")
    regions = _find_regions(bench.x, by)
    output, right = bench.call(form, rolled)[0], bench.compute(regions).output
    if is_close([_roll(output, -by)], right):
        return JudgedClaim(SHIFTED)
    mixed = bench.compute(None).output
    told = {
        "pixels of opposite ends of the image attend to each other": (-by, mixed),
        "it is not rolled back": (0, right),
        "it is rolled in the same direction again": (by, right),
    }
    found = (said for said, (n, wanted) in told.items() if is_close([_roll(output, n)], wanted))
    expected = "each window attends within its regions, and the image is rolled back"
    return JudgedClaim(SHIFTED, expected, next(found, "it gives something else"))


def _roll(windows: Tensor, by: int) -> Tensor:
    """Return the windows of images that are rolled down and to the right."""
    return cut_windows(lay_windows(windows).roll((by, by), (1, 2)))


def _find_regions(windows: Tensor, by: int) -> Tensor:
    """Return which pixels of each window belong together once the images are rolled back."""
    images = lay_windows(windows)
    side = images.shape[1]  # windows lie in one row
    down, right = (
        (torch.arange(n) >= n - side).long() + (torch.arange(n) >= n - by).long()
        for n in images.shape[1:3]
    )
    labels = (3 * down[:, None] + right).expand(len(images), -1, -1)
    cut = cut_windows(labels[..., None])[..., 0]
    return (cut[:, :, None] == cut[:, None, :])[:, None]
