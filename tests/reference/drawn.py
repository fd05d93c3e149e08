"""Random numbers for the tests of the reference."""

from functools import partial

import torch
from hypothesis import settings
from torch import Tensor

from headcheck.reference import Parameters

# float64 rounds to 1.1e-16; sums of a few dozen products of numbers below 100 stay inside this, and
# so do the results of logits below some 50.
assert_close = partial(torch.testing.assert_close, rtol=0, atol=5e-12)

compared = settings(deadline=None, derandomize=True, database=None, max_examples=40)


def draw(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return draw(seed, *shape)


def parameters(seed: int, d_in: int, d_out: int, bias: bool = True, out: bool = True) -> Parameters:
    W = [draw(seed + i, d_out, d_in) for i in range(3)]
    b = [draw(seed + i, d_out) if bias else None for i in range(3, 6)]
    W_o, b_o = (draw(seed + 6, d_out, d_out), draw(seed + 7, d_out)) if out else (None, None)
    return Parameters(*W, *b, W_o, b_o)
