"""What a submission's process says of a crash is taken within limits, and never as a verdict."""

import pytest

from headcheck.grader.sandbox.grader_side.replies import (
    MAX_AXES,
    MAX_PIECE,
    MAX_PIECES,
    parse_crash,
)
from headcheck.grader.sandbox.sentences import SENTENCES

NAME = "mask_not_cut"


@pytest.mark.parametrize(
    "found",
    [
        None,
        "mask_not_cut",
        {},
        {"name": 3},
        {"name": "all is well"},
        {"name": NAME, "details": 5},
        {"name": NAME, "details": [None]},
        {"name": NAME, "details": [["a"]]},
        {"name": NAME, "details": [{"a": 1}]},
    ],
)
def test_what_is_no_crash_of_the_catalogue_is_none(found: object) -> None:
    assert parse_crash(found) is None


def test_the_sentence_is_ours() -> None:
    found = parse_crash({"name": NAME, "details": ["`x` is ", [2, 3]], "sentence": "well done"})
    assert found is not None
    assert found.sentence == SENTENCES[NAME]
    assert found.details == ("`x` is ", (2, 3))


def test_details_stay_within_limits_and_on_one_line() -> None:
    details = ["a\n  expected  1\r\u2028b", "x" * 999, [10**30] * 99, [-(10**30)], *["y"] * 99]
    found = parse_crash({"name": NAME, "details": details})
    assert found is not None
    text, long, shape, negative = found.details[:4]
    assert text == "a   expected  1  b"
    assert long == "x" * MAX_PIECE
    assert shape == (10**9,) * MAX_AXES and negative == (-1,)
    assert len(found.details) == MAX_PIECES
