"""A case is one line of text, and the line is the case."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcheck.properties.cases.case_tensors import DTYPES
from headcheck.properties.cases.case_text import BadCase, format_case, parse_case
from headcheck.properties.cases.strategies import cases
from headcheck.properties.terms.case import Case, InputContent, MaskForm, MaskType, MemoryLayout
from tests.properties.contracts import MASKED, MULTI_HEAD

ANY_CASE = (
    cases(MULTI_HEAD, max_tokens=700, dtypes=tuple(DTYPES), devices=("cpu", "cuda:1"))
    | cases(MASKED, max_batch=70)
).flatmap(
    lambda case: st.builds(
        replace,
        st.just(case),
        seed=st.integers(0, 2**32 - 1),
        dropout=st.floats(0, 1, exclude_max=True),
    )
)


@given(ANY_CASE)
def test_the_line_of_a_case_is_exact(case: Case) -> None:
    line = format_case(case)
    assert "\n" not in line and '"' not in line and "'" not in line
    assert parse_case(line) == case


def test_a_case_prints_what_is_not_usual() -> None:
    case = Case(content=InputContent.OUTLIER, memory=MemoryLayout.SLICED, bias=True, seed=7)
    assert format_case(case) == (
        "batch=1 tokens=2 context_length=2 d_in=1 heads=1 head_dim=1 bias=true content=outlier "
        "memory=sliced dtype=float64 seed=7"
    )


def test_what_a_line_does_not_name_is_as_usual() -> None:
    assert parse_case("tokens=5") == Case(tokens=5, context_length=5)
    assert parse_case(" context_length=1 ") == Case(tokens=1, context_length=1)
    masked = parse_case("seed=3 mask_form=query_key mask_type=int")
    assert masked == Case(seed=3, mask_form=MaskForm.QUERY_KEY, mask_type=MaskType.INT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this is not a case"),
        ("batch", "`batch` is not a value of a case; there are batch, tokens, "),
        ("width=3", "`width=3` is not a value of a case"),
        ("batch=1 batch=2", "`batch` is given twice"),
        ("batch=0", "`batch=0`: batch is a whole number from 1 to "),
        ("tokens=1e9", "tokens is a whole number"),
        ("tokens=99999999999999999999", "tokens is a whole number"),
        ("seed=-1", "seed is a whole number from 0"),
        ("dropout=1", "dropout is a number from 0 to less than 1"),
        ("dropout=nan", "dropout is a number"),
        ("bias=yes", "bias is one of true, false"),
        ("content=odd", "content is one of normal, repeated"),
        ("dtype=float8", "dtype is one of float64, float32"),
        ("tokens=5 context_length=4", "more tokens than context_length"),
    ],
)
def test_a_line_that_is_no_case_says_why(text: str, message: str) -> None:
    with pytest.raises(BadCase) as problem:
        parse_case(text)
    assert message in str(problem.value) and "\n" not in str(problem.value)
