"""What is said of a wrong answer: kind before value, the worst element, how many are off."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.comparison import (
    assert_differs,
    assert_finite,
    assert_shape,
    check_close,
    format_distinct,
)
from headcheck.properties.counting import count_share
from headcheck.properties.violations.violation import Violation, ViolationKind

EXPECTED = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)


def allowed(exact: float = 1e-12, float32: float = 1e-6, like: Tensor = EXPECTED) -> Tolerance:
    return Tolerance(torch.full_like(like, exact), torch.full_like(like, float32))


def said(
    got: Tensor, expected: Tensor = EXPECTED, limit: Tolerance | None = None, what: str = "output"
) -> tuple[ViolationKind, str, str, str]:
    with pytest.raises(Violation) as caught:
        check_close(got, expected, limit or allowed(like=expected), what)
    v = caught.value
    return v.kind, v.expected, v.got, v.where


@pytest.mark.parametrize("error", [0.0, 0.9e-12])
def test_answers_within_the_limit_agree(error: float) -> None:
    assert check_close(EXPECTED + error, EXPECTED, allowed()) is True


def test_the_limit_itself_is_allowed() -> None:
    assert check_close(EXPECTED + 0.25, EXPECTED, allowed(0.25, 0.5)) is True
    assert check_close(EXPECTED + 0.5, EXPECTED, allowed(0.25, 0.5)) is False


def test_float32_accuracy_is_distinguished_from_float64() -> None:
    assert check_close(EXPECTED + 1e-9, EXPECTED, allowed()) is False
    one_element = EXPECTED.clone()
    one_element[1, 0] += 1e-9
    assert check_close(one_element, EXPECTED, allowed()) is False


def test_wrong_shape_is_reported_first() -> None:
    got = torch.full((2, 3), torch.nan)
    assert said(got) == (ViolationKind.SHAPE, "shape (2, 2)", "shape (2, 3)", "output")


@pytest.mark.parametrize(
    ("shape", "shown"),
    [((), "shape ()"), ((3,), "shape (3,)"), ((1, 2, 3), "shape (1, 2, 3)"), ((0,), "shape (0,)")],
)
def test_shapes_are_written_as_python_writes_them(shape: tuple[int, ...], shown: str) -> None:
    with pytest.raises(Violation) as caught:
        assert_shape(torch.zeros(4, 4), shape, "weights")
    v = caught.value
    assert (v.kind, v.where) == (ViolationKind.SHAPE, "weights")
    assert (v.expected, v.got) == (shown, "shape (4, 4)")
    assert_shape(torch.zeros(shape), shape)


def test_no_broadcasting_makes_shapes_equal() -> None:
    assert said(torch.zeros(1, 2))[0] is ViolationKind.SHAPE
    assert said(torch.zeros(2, 2, 1))[0] is ViolationKind.SHAPE


def test_nan_is_reported_before_a_wrong_value() -> None:
    got = EXPECTED + 100
    got[1, 0] = torch.nan
    told = "nan; 1 of 4 elements is not finite"
    assert said(got) == (ViolationKind.FINITE, "a finite number", told, "output[1, 0]")


def test_the_first_of_several_infinities_is_shown() -> None:
    got = EXPECTED.clone()
    got[0, 1], got[1, 1] = -torch.inf, torch.nan
    told = "a finite number", "-inf; 2 of 4 elements are not finite", "weights[0, 1]"
    assert said(got, what="weights") == (ViolationKind.FINITE, *told)


def test_finite_numbers_pass_however_large() -> None:
    assert_finite(torch.tensor([1.7e308, -1.7e308, 5e-324], dtype=torch.float64))
    assert_finite(torch.zeros(0, 3))


def test_a_wrong_value_is_shown_with_its_tolerance_and_its_place() -> None:
    got = EXPECTED.clone()
    got[1, 0] = 3.5
    told = "3 ± 1e-06", "3.5; 1 of 4 elements is off", "output[1, 0]"
    assert said(got) == (ViolationKind.VALUE, *told)


def test_only_elements_beyond_the_float32_limit_are_counted() -> None:
    got = EXPECTED + torch.tensor([[1e-9, 0.5], [0.0, 0.25]])
    assert said(got)[2:] == ("2.5; 2 of 4 elements are off", "output[0, 1]")


def test_a_single_element_is_one_of_one() -> None:
    one = torch.tensor([0.5], dtype=torch.float64)
    assert said(one + 1, one)[1:] == ("0.5 ± 1e-06", "1.5; the only element is off", "output[0]")


def test_the_worst_element_is_the_one_furthest_beyond_its_own_tolerance() -> None:
    limit = Tolerance(torch.zeros(2, 2), torch.tensor([[10.0, 1e-3], [1.0, 1.0]]))
    got = EXPECTED + torch.tensor([[50.0, 0.1], [2.0, 0.0]])
    # 5, 100, 2 and 0 times the tolerance.
    told = ("2 ± 0.001", "2.1; 3 of 4 elements are off", "output[0, 1]")
    assert said(got, limit=limit)[1:] == told


def test_an_element_without_tolerance_is_the_worst() -> None:
    limit = Tolerance(torch.zeros(2, 2), torch.tensor([[1e-6, 1e-6], [1e-6, 0.0]]))
    got = EXPECTED + torch.tensor([[1.0, 0.0], [0.0, 0.5]])
    told = ("4 ± 0", "4.5; 2 of 4 elements are off", "output[1, 1]")
    assert said(got, limit=limit)[1:] == told


def test_location_follows_the_noun() -> None:
    got = EXPECTED.clone()
    got[0, 0] = 7
    where = said(got, what="output after a change of token 2")[3]
    assert where == "output[0, 0] after a change of token 2"


def test_a_number_without_axes_has_no_index() -> None:
    one = torch.tensor(0.5, dtype=torch.float64)
    assert said(one + 1, one, what="slope")[3] == "slope"


def test_smaller_dtypes_are_compared_in_float64() -> None:
    expected = torch.tensor([1.0 + 2.0**-20], dtype=torch.float64)
    limit = Tolerance(torch.tensor([2.0**-30]), torch.tensor([2.0**-21]))
    # In float32 arithmetic of the expected value the difference would be there, too; in
    # bfloat16's it would be gone.
    assert said(torch.ones(1, dtype=torch.bfloat16), expected, limit)[0] is ViolationKind.VALUE
    assert check_close(torch.tensor([1.0 + 2.0**-20]), expected, limit) is True


def test_empty_tensors_agree() -> None:
    empty = torch.zeros(0, 3, dtype=torch.float64)
    assert check_close(empty, empty, allowed(like=empty)) is True


def test_a_difference_that_is_there_is_enough_in_one_element() -> None:
    changed = torch.zeros(2, 2)
    changed[1, 1] = -1e-5
    assert_differs(changed, allowed(), "another query gives another output")


def test_difference_below_rounding_does_not_count() -> None:
    wanted = "other keys give another output"
    with pytest.raises(Violation) as caught:
        assert_differs(torch.full((2, 2), -1e-7), allowed(), wanted, "row 3")
    v = caught.value
    assert (v.kind, v.expected, v.where) == (ViolationKind.VALUE, wanted, "row 3")
    assert v.got == "it changed by at most 1e-07"


def test_empty_tensors_do_not_differ() -> None:
    empty = torch.zeros(0)
    with pytest.raises(Violation, match="nothing changed"):
        assert_differs(empty, allowed(like=empty), "something")


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12), st.data())
def test_one_wrong_element_is_found_wherever_it_is(
    numbers: list[float], data: st.DataObject
) -> None:
    expected = torch.tensor(numbers, dtype=torch.float64)
    where = data.draw(st.integers(0, len(numbers) - 1))
    off = data.draw(st.floats(1e-3, 1e3) | st.floats(-1e3, -1e-3))
    got = expected.clone()
    got[where] += off
    kind, _, shown, place = said(got, expected)
    assert kind is ViolationKind.VALUE
    assert shown.endswith(f"; {count_share(1, len(numbers), 'element')} off")
    assert place == f"output[{where}]"
    assert math.isclose(float(shown.split(";")[0]), float(got[where]), rel_tol=1e-5, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        (0.25, 0.5, ("0.25", "0.5")),
        (1.0000001, 1.0000002, ("1.0000001", "1.0000002")),
        (1.0, 1.0 + 2**-52, ("1", "1.0000000000000002")),
        (1.0, 1.0, ("1", "1")),
    ],
)
def test_numbers_are_shown_with_distinguishing_digits(
    one: float, other: float, shown: tuple[str, str]
) -> None:
    assert format_distinct(one, other) == shown
