"""A class that takes a cache and never reads it, beside the weights that it returns."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.grader.conftest import GradeText

SOURCE = """\
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, mask=None, past_key_value=None, output_attentions=False):
        q, k, v = (
            f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        s = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            s = s + mask
        w = s.softmax(-1)
        y = self.o((w @ v).transpose(1, 2).flatten(2))
        return (y, w) if output_attentions else (y,)
"""


def test_weights_do_not_pass_for_a_cache_that_is_never_read(grade_text: "GradeText") -> None:
    record = grade_text(SOURCE)
    assert record.status == "passed", record.properties
    assert grade_text(SOURCE.replace("** 0.5", "** 1")).status == "failed"
