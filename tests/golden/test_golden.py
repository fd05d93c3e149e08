"""Every wrong answer gets the feedback that was read and found good.

What differs is not wrong by itself: write it anew by `python -m tests.golden SLUG`, and read it.
"""

import sys
from collections.abc import Iterator

import pytest

from exercises import BY_SLUG
from exercises.answers import find_answer
from grader.sandbox.process import Server
from tests.golden.bank import answers, blurred, feedback, golden

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
def server() -> Iterator[Server]:
    with Server(trusted=True) as started:
        yield started


@pytest.mark.parametrize("slug", BY_SLUG)
def test_every_wrong_answer_has_its_feedback_kept(slug: str) -> None:
    assert list(golden(slug)) == [answer.name for answer in answers(slug)]


@pytest.mark.parametrize("answer", SAMPLE)
def test_some_feedback_is_as_it_was_read(server: Server, answer: str) -> None:
    slug, name = answer.split("/")
    must_be_as_kept(server, slug, name)


@pytest.mark.deep
@pytest.mark.parametrize("slug", BY_SLUG)
def test_all_feedback_is_as_it_was_read(server: Server, slug: str) -> None:
    for answer in answers(slug):
        must_be_as_kept(server, slug, answer.name)


def must_be_as_kept(server: Server, slug: str, name: str) -> None:
    shown = feedback(server, slug, find_answer(BY_SLUG[slug], name))
    assert blurred(shown) == blurred(golden(slug)[name])


def test_numbers_that_a_processor_rounds_are_not_compared() -> None:
    one, other = "expected 0.771098 ± 1e-06", "expected 0.771099 ± 2e-06"
    assert blurred(one) == blurred(other) == "expected # ± #"
    assert blurred("2 of 4 at output[0, 1]") == "2 of 4 at output[0, 1]"
