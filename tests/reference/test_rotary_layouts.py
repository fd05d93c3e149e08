"""Rotary positions in the layouts that models have: pairs of neighbours, and a share of a head."""

import pytest
import torch
from torch.testing import assert_close

from headcheck.reference import Variant

T = torch.randn(2, 3, 7, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
HALVES, NEIGHBOURS = Variant(rotary=True), Variant(rotary=True, neighbours=True)
AS_PAIRS = torch.arange(8).view(2, 4).T.flatten()
"""where the coordinates of both halves are if they lie in pairs"""


def test_neighbours_are_halves_in_another_order() -> None:
    assert_close(NEIGHBOURS.place(T[..., AS_PAIRS]), HALVES.place(T)[..., AS_PAIRS])
    assert not torch.allclose(NEIGHBOURS.place(T), HALVES.place(T))


@pytest.mark.parametrize("neighbours", [False, True])
def test_of_a_share_the_rest_stays(neighbours: bool) -> None:
    placed = Variant(rotary=True, neighbours=neighbours, share=0.5).place(T)
    assert torch.equal(placed[..., 4:], T[..., 4:])
    assert_close(placed[..., :4], Variant(rotary=True, neighbours=neighbours).place(T[..., :4]))


@pytest.mark.parametrize("variant", [HALVES, NEIGHBOURS, Variant(rotary=True, share=0.5)])
def test_turning_keeps_lengths_and_the_first_token(variant: Variant) -> None:
    placed = variant.place(T)
    assert_close(placed.norm(dim=-1), T.norm(dim=-1))
    assert torch.equal(placed[..., 0, :], T[..., 0, :])


@pytest.mark.parametrize("variant", [HALVES, NEIGHBOURS, Variant(rotary=True, share=0.5)])
def test_only_distances_count(variant: Variant) -> None:
    query, key = T[:1, :1, :1].expand(1, 1, 7, 8), T[1:, 2:, :1].expand(1, 1, 7, 8)
    scores = variant.place(query) @ variant.place(key).mT
    for distance in range(7):
        along = scores[0, 0].diagonal(-distance)
        assert_close(along, along[:1].expand_as(along))


def test_another_base_turns_at_another_pace() -> None:
    assert not torch.allclose(Variant(rotary=True, base=500.0).place(T), HALVES.place(T))
