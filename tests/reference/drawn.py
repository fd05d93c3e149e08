"""Random numbers for the tests of the reference."""

import torch
from hypothesis import settings
from torch import Tensor

compared = settings(deadline=None, derandomize=True, database=None, max_examples=40)


def draw(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return draw(seed, *shape)
