"""Attention in windows of images, which may be shifted."""

from typing import TYPE_CHECKING

import pytest
import torch

from headcheck.grader.sandbox.worker.token_axes import lay_window

if TYPE_CHECKING:
    from tests.grader.conftest import GradeAll

SOURCE = """\
import torch
from torch import nn


def cut(x, w):
    b, h, c, d = x.shape
    return x.view(b, h // w, w, c // w, w, d).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, d)


def lay(x, w, h, c):
    b = x.shape[0] * w * w // (h * c)
    return x.view(b, h // w, c // w, w, w, -1).permute(0, 1, 3, 2, 4, 5).reshape(b, h, c, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, num_heads, window_size=4, shift_size=0):
        super().__init__()
        self.num_heads, self.window_size, self.shift_size = num_heads, window_size, shift_size
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def find_regions(self, h, c):
        def mark(n):
            later = torch.arange(n)
            return (later >= n - self.window_size).int() + (later >= n - self.shift_size).int()

        regions = 3 * mark(h)[:, None] + mark(c)
        regions = cut(regions[None, :, :, None], self.window_size)[..., 0]
        return regions[:, None] == regions[:, :, None]

    def forward(self, x):
        b, h, c, d = x.shape
        w, s = self.window_size, self.shift_size
        x = cut(x.roll((-s, -s), (1, 2)), w)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if s:
            regions = self.find_regions(h, c).repeat(b, 1, 1)
            scores = scores.masked_fill(~regions[:, None], float("-inf"))
        x = self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return lay(x, w, h, c).roll((s, s), (1, 2))
"""


def test_a_window_is_a_square() -> None:
    assert torch.equal(lay_window(torch.arange(9)[:, None]), torch.arange(9).view(1, 3, 3, 1))
    with pytest.raises(ValueError, match="8 pixels are no square window"):
        lay_window(torch.randn(2, 8, 5))


@pytest.mark.parametrize("shift", ["shift_size=0", "shifted=False"])
def test_right_windows_are_judged_with_and_without_a_shift(
    shift: str, grade_all: "GradeAll"
) -> None:
    source = SOURCE.replace("shift_size=0", shift)
    if shift == "shifted=False":
        source = source.replace(
            "window_size, shift_size\n", "window_size, window_size // 2 * shifted\n"
        )
    plain, shifted = grade_all(source)
    assert (plain.status, shifted.status) == ("passed", "passed")
    assert plain.max_score > 100 and shifted.max_score == 10


SIZED = (
    SOURCE.replace("dim, num_heads,", "dim, input_resolution, num_heads,")
    .replace(
        "        b, h, c, d = x.shape\n        w, s",
        "        b, h, c, d = x.shape\n        assert (h, c) == self.size\n        w, s",
    )
    .replace("        self.qkv,", "        self.size = input_resolution\n        self.qkv,")
)
"""the same class for images of one size"""


@pytest.mark.parametrize(
    ("source", "status"),
    [
        pytest.param(SIZED, "passed", marks=pytest.mark.whole),
        (SIZED.replace("roll((s, s)", "roll((-s, -s)"), "failed"),
    ],
)
def test_a_class_for_images_of_one_size_is_given_these(
    source: str, status: str, grade_all: "GradeAll"
) -> None:
    plain, shifted = grade_all(source)
    assert (plain.status, shifted.status) == ("passed", status)


@pytest.mark.parametrize(
    ("old", "new", "got"),
    [
        ("roll((s, s)", "roll((-s, -s)", "rolled in the same direction again"),
        ("h, c).roll((s, s), (1, 2))", "h, c)", "it is not rolled back"),
        ("if s:", "if False:", "pixels of opposite ends of the image attend to each other"),
        ("repeat(b, 1, 1)", "repeat_interleave(b, 0)", "it changes others, or not all of these"),
        ("repeat(b, 1, 1)", "repeat(b, 1)", "it raises"),
    ],
)
def test_wrong_shifts_are_told(old: str, new: str, got: str, grade_all: "GradeAll") -> None:
    plain, shifted = grade_all(SOURCE.replace(old, new))
    assert (plain.status, shifted.status) == ("passed", "failed")
    assert got in shifted.properties[0].message


@pytest.mark.parametrize("option", [", shift_size=0", ""])
def test_windows_that_are_cut_wrongly_are_told(option: str, grade_all: "GradeAll") -> None:
    wrong = SOURCE.replace("permute(0, 1, 3, 2, 4, 5).reshape(-1", "reshape(-1")
    if not option:
        wrong = wrong.replace(", shift_size=0", "").replace(
            "window_size, shift_size\n", "window_size, 0\n"
        )
    plain, cut = grade_all(wrong)
    assert (plain.status, cut.status) == ("passed", "failed")


GRIDS = {
    "heads first": ("torch.randn(num_heads, 2 * window_size - 1, 2 * window_size - 1)", "[:, {}]"),
    "heads last": (
        "torch.randn(2 * window_size - 1, 2 * window_size - 1, num_heads)",
        "[{}].permute(2, 0, 1)",
    ),
}


@pytest.mark.parametrize(("made", "read"), GRIDS.values(), ids=GRIDS)
def test_a_table_of_offsets_may_be_a_grid(made: str, read: str, grade_all: "GradeAll") -> None:
    source = SOURCE.replace(
        "        self.qkv, self.proj",
        f"        self.pos_bias = nn.Parameter({made})\n        self.qkv, self.proj",
    ).replace(
        "        if s:\n",
        "        y, c_ = torch.arange(w * w) // w, torch.arange(w * w) % w\n"
        "        down, right = (t[:, None] - t + w - 1 for t in (y, c_))\n"
        f"        scores = scores + self.pos_bias{read.format('down, right')}\n        if s:\n",
    )
    plain, _ = grade_all(source)
    assert plain.status == "passed"
    assert "a learned number for each offset in a window" in str(plain.notes)


def test_the_resolution_of_images_may_be_an_argument(grade_all: "GradeAll") -> None:
    source = SOURCE.replace("num_heads, window_size=4", "num_heads, resolution, window_size=4")
    source = source.replace("self.qkv,", "self.rows, self.columns = resolution\n        self.qkv,")
    read = source.replace("self.find_regions(h, c)", "self.find_regions(self.rows, self.columns)")
    assert [record.status for record in grade_all(read)] == ["passed", "passed"]
