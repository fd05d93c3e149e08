"""Every wrong answer gets the feedback that was read and found good.

What differs is not wrong by itself: write it anew by `python -m tests.golden SLUG`, and read it.
"""

import sys
from collections.abc import Iterator

import pytest

from exercises import BY_SLUG
from exercises.answers import find_answer
from grader.sandbox.grader_side.servers import ServerHandle
from tests.golden.bank import list_wrong_answers, load_golden, mask_numbers, render_feedback

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server is Linux's")

SAMPLE = (
    "linear_layer/bias_forgotten",
    "scaled_dot_product/stub",
    "self_attention_v2/numpy_softmax",
    "weight_transfer/frozen",
    "causal_attention/masked_fill_result_lost",
    "masked_multi_head/mask_ignored",
    "multi_head_attention/heads_interleaved",
)


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHandle]:
    with ServerHandle(trusted=True) as started:
        yield started


@pytest.mark.parametrize("slug", BY_SLUG)
def test_every_wrong_answer_has_golden_feedback(slug: str) -> None:
    assert list(load_golden(slug)) == [answer.name for answer in list_wrong_answers(slug)]


@pytest.mark.parametrize("answer", SAMPLE)
def test_sampled_feedback_matches_the_golden_files(server: ServerHandle, answer: str) -> None:
    slug, name = answer.split("/")
    must_be_as_kept(server, slug, name)


@pytest.mark.deep
@pytest.mark.parametrize("slug", BY_SLUG)
def test_all_feedback_matches_the_golden_files(server: ServerHandle, slug: str) -> None:
    for answer in list_wrong_answers(slug):
        must_be_as_kept(server, slug, answer.name)


def must_be_as_kept(server: ServerHandle, slug: str, name: str) -> None:
    shown = render_feedback(server, slug, find_answer(BY_SLUG[slug], name))
    assert mask_numbers(shown) == mask_numbers(load_golden(slug)[name])


def test_rounded_numbers_are_not_compared() -> None:
    one, other = "expected 0.771098 ± 1e-06", "expected 0.771099 ± 2e-06"
    assert mask_numbers(one) == mask_numbers(other) == "expected # ± #"
    assert mask_numbers("2 of 4 at output[0, 1]") == "2 of 4 at output[0, 1]"
