"""The masks' definitions, spelled out entry by entry."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headcheck.reference import (
    causal_lower_right_mask,
    causal_mask,
    padding_mask,
    sliding_window_mask,
    to_bool_mask,
)

spelled_out = settings(deadline=None, derandomize=True, database=None, max_examples=50)
SIZES = st.integers(0, 7)


@spelled_out
@given(SIZES)
def test_causal_row_t_sees_0_to_t(tokens: int) -> None:
    assert causal_mask(tokens).tolist() == [[k <= q for k in range(tokens)] for q in range(tokens)]


@spelled_out
@given(SIZES, st.integers(1, 9))
def test_window_row_t_sees_itself_and_the_width_minus_1_before(tokens: int, width: int) -> None:
    expected = [[k in range(t - width + 1, t + 1) for k in range(tokens)] for t in range(tokens)]
    assert sliding_window_mask(tokens, width).tolist() == expected


def test_a_window_of_all_tokens_is_causal_and_of_one_is_the_diagonal() -> None:
    assert torch.equal(sliding_window_mask(5, 5), causal_mask(5))
    assert torch.equal(sliding_window_mask(5, 99), causal_mask(5))
    assert torch.equal(sliding_window_mask(5, 1), torch.eye(5, dtype=torch.bool))


@pytest.mark.parametrize("width", [0, -1])
def test_a_window_that_sees_nothing_is_refused(width: int) -> None:
    with pytest.raises(ValueError, match=rf"width is {width}; give 1 or more"):
        sliding_window_mask(3, width)


@spelled_out
@given(st.lists(SIZES, min_size=1, max_size=4), SIZES)
def test_padding_shows_the_first_keys_of_each_sequence(lengths: list[int], tokens: int) -> None:
    expected = [[[[k < length for k in range(tokens)]]] for length in lengths]
    assert padding_mask(lengths, tokens).tolist() == expected
    assert padding_mask(torch.tensor(lengths), tokens).tolist() == expected
    assert padding_mask(lengths, tokens).shape == (len(lengths), 1, 1, tokens)


@spelled_out
@given(SIZES, SIZES)
def test_lower_right_lets_the_last_query_see_every_key(queries: int, keys: int) -> None:
    expected = [[k <= keys - queries + q for k in range(keys)] for q in range(queries)]
    assert causal_lower_right_mask(queries, keys).tolist() == expected


def test_lower_right_is_the_bottom_of_the_causal_mask() -> None:
    assert torch.equal(causal_lower_right_mask(2, 5), causal_mask(5)[-2:])
    assert torch.equal(causal_lower_right_mask(5, 5), causal_mask(5))
    assert causal_lower_right_mask(3, 1).tolist() == [[False], [False], [True]]


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8, torch.float32])
def test_may_attend_is_whatever_is_not_zero(dtype: torch.dtype) -> None:
    mask = torch.tensor([[1, 0], [2, 1]]).to(dtype)
    read = to_bool_mask(mask)
    assert read.dtype == torch.bool
    assert read.tolist() == [[True, False], [True, True]]


def test_may_attend_takes_fractions_and_negative_numbers_for_true() -> None:
    assert to_bool_mask(torch.tensor([0.5, -1.0, 0.0, -0.0])).tolist() == [True, True, False, False]


def test_masks_are_made_where_they_are_asked_for() -> None:
    masks = [
        causal_mask(3, device="meta"),
        sliding_window_mask(3, 2, device="meta"),
        padding_mask([1, 2], 3, device="meta"),
        padding_mask(torch.ones(2, dtype=torch.int64, device="meta"), 3),
        causal_lower_right_mask(2, 3, device="meta"),
        to_bool_mask(torch.ones(3, device="meta")),
    ]
    for mask in masks:
        assert mask.device.type == "meta"
        assert mask.dtype == torch.bool
    assert causal_mask(3).device.type == "cpu"
