"""The numbers that a cache holds are counted as they lie in memory, whatever it is made of."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from headcheck.grader.sandbox.worker.decoding import count_kept

LATENT = torch.zeros(1, 10, 3)
TURNED = torch.zeros(1, 10, 2)


@dataclass
class Kept:
    latent: Tensor
    parts: list[Tensor]


@pytest.mark.parametrize(
    ("cache", "numbers"),
    [
        (None, 0),
        ((LATENT, TURNED), 50),
        ({"latent": LATENT, "length": 10}, 30),
        (Kept(LATENT, [TURNED, TURNED]), 50),
        (LATENT.unsqueeze(1).expand(-1, 8, -1, -1), 30),
        (LATENT.repeat(1, 1, 8), 240),
        (torch.zeros(1, 10, 64)[..., :3], 30),
        ((LATENT[:, :5], LATENT[:, 5:]), 30),
        ((LATENT, LATENT.mT), 30),
        (torch.zeros(1, 20, 3)[:, :10], 30),
    ],
)
def test_views_count_once_and_what_is_cut_off_does_not(cache: Any, numbers: int) -> None:
    assert count_kept(cache) == numbers
