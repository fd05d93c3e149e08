"""What is read off dropped weights, also where nothing of them is left."""

import pytest
import torch

from headcheck.properties.mistakes.recognisers.dropout import DropoutWeights


def weights(used: torch.Tensor) -> DropoutWeights:
    exact = torch.tensor([[[1.0, 0.0], [0.25, 0.75]]], dtype=torch.float64)
    return DropoutWeights(exact, exact.log(), used.expand(3, 1, 2, 2) * exact)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_one_number_for_all_that_is_kept_is_the_factor(factor: float) -> None:
    assert weights(torch.full((3, 1, 2, 2), factor).double()).factor == factor


def test_where_nothing_is_kept_there_is_no_factor() -> None:
    assert weights(torch.zeros(3, 1, 2, 2).double()).factor is None


def test_where_numbers_differ_there_is_no_factor() -> None:
    used = torch.ones(3, 1, 2, 2).double()
    used[0, 0, 1, 0] = 2
    assert weights(used).factor is None


def test_nan_has_no_factor() -> None:
    assert weights(torch.full((3, 1, 2, 2), torch.nan).double()).factor is None
