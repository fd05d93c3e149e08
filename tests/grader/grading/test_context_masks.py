"""A mask of a context to which the tokens of queries are appended."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.conftest import GradeAll

SOURCE = """\
import torch
from torch import nn
from torch.nn import functional as F


class Resampler(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, media, latents, mask=None):
        k, v = self.kv(torch.cat((media, latents), 1)).chunk(2, -1)
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(latents), k, v)
        )
        if mask is not None:
            mask = F.pad(mask, (0, latents.shape[1]), value=True)[:, None, None]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(out.transpose(1, 2).flatten(2))
"""
PADDED = "F.pad(mask, (0, latents.shape[1]), value=True)"


@pytest.mark.parametrize(
    ("source", "status"),
    [
        (SOURCE, "passed"),
        (SOURCE.replace("(0, latents.shape[1])", "(latents.shape[1], 0)"), "failed"),
        (SOURCE.replace("if mask is not None", "if False").replace("attn_mask=mask", ""), "failed"),
        (SOURCE.replace(PADDED, PADDED.replace("mask,", "~mask,")), "passed"),
    ],
    ids=["right", "at the wrong end", "without an effect", "true where it hides"],
)
def test_a_mask_hides_tokens_of_the_context(
    source: str, status: str, grade_all: "GradeAll"
) -> None:
    attention, masked = grade_all(source)
    assert (attention.status, masked.status) == ("passed", status)
    assert masked.notes[0].message == "judged with its `mask`, too: a mask of the context"


def test_a_mask_of_all_keys_is_not_accused(grade_all: "GradeAll") -> None:
    assert [record.status for record in grade_all(SOURCE.replace(PADDED, "mask"))] == ["passed"]
