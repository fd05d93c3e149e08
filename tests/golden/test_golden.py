"""The author of every wrong answer is told what was read and found good, of each kind once.

What differs is not wrong by itself: write it anew by `python -m tests.golden SLUG`, and read it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exercises import BY_SLUG
from grader.sandbox.process import Server
from tests.golden import texts
from tests.golden.bank import answers, told
from tests.golden.texts import Kind, blurred, key, regrouped, with_their_kind

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server is Linux's")

SAMPLE = (
    "linear_layer/bias_forgotten",
    "linear_layer/view_of_strided_input",
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


# ----------------------------------------------------------------- what needs no judging


@pytest.mark.parametrize("slug", BY_SLUG)
def test_every_wrong_answer_is_of_one_kind(slug: str) -> None:
    kept = [name for kind in texts.read(slug) for name in kind.names]
    assert sorted(kept) == sorted(path.stem for path in answers(slug))
    keys = [kind.key for kind in texts.read(slug)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("slug", BY_SLUG)
def test_claims_mistakes_and_hints_are_still_worded_so(slug: str) -> None:
    kinds = texts.read(slug)
    again = "python -m tests.golden --reworded"
    assert not texts.reworded(BY_SLUG[slug], kinds), again
    assert texts.legend(slug) == texts.hints(BY_SLUG[slug], kinds), again


# ----------------------------------------------------------------- what is judged anew


@pytest.mark.parametrize("answer", SAMPLE)
def test_some_authors_are_told_what_was_read(server: Server, answer: str) -> None:
    slug, name = answer.split("/")
    [kind] = [kind for kind in texts.read(slug) if name in kind.names]
    must_be_told(server, slug, name, kind)


@pytest.mark.deep
@pytest.mark.parametrize("slug", BY_SLUG)
def test_all_authors_are_told_what_was_read(server: Server, slug: str) -> None:
    for kind in texts.read(slug):
        for name in kind.names:
            must_be_told(server, slug, name, kind)


def must_be_told(server: Server, slug: str, name: str, kind: Kind) -> None:
    """The text itself for the first of a kind, one of the same kind for the others."""
    text = told(server, slug, BY_SLUG[slug].folder / "answers" / "wrong" / f"{name}.py")
    if name == kind.names[0]:
        assert blurred(text) == blurred(kind.text), name
    else:
        assert key(text) == kind.key, name


# ----------------------------------------------------------------- how texts are compared


def test_numbers_that_a_processor_rounds_are_not_compared() -> None:
    one, other = ("expected  0.771098 ± 1e-06",), ("expected  0.771099 ± 2e-06",)
    assert blurred(one) == blurred(other) == ("expected  # ± #",)
    assert blurred(("got       2 of 4 at output[0, 1]",)) == ("got       2 of 4 at output[0, 1]",)


CLAIM = "claim     It is right."


def test_a_kind_is_what_is_named_and_the_claim_wherever_it_shows() -> None:
    one = ("mistake   It is late. (line 3)", CLAIM, "got       1; 1 of 2 are off")
    other = ("mistake   It is late. (cell 2, line 5)", CLAIM, "got       RuntimeError: no")
    assert key(one) == key(other) == ("mistake   It is late.", CLAIM)
    assert key(("mistake   It is early.", *one[1:])) != key(one)
    assert key((one[0], "claim     It is there.")) != key(one)


def test_without_a_name_a_kind_is_how_the_message_begins() -> None:
    one = (CLAIM, "expected  0.5 ± 1e-06 at output[0, 1]", "got       nan; 1 of 2 are off", "on  a")
    other = (CLAIM, "expected  -2 ± 3e-07 at output[3]", "got       7.25; 9 of 9 are off")
    assert key(one) == key(other)
    assert key((CLAIM, one[1], "got       RuntimeError: no")) != key(one)


# ----------------------------------------------------------------- how they are kept


A, B = (CLAIM, "got       1"), (CLAIM, "got       nothing")


def test_a_new_answer_of_a_known_kind_adds_its_name_only() -> None:
    known = Kind(("middle", "other"), A)
    again = regrouped([known], {"middle", "other", "early"}, {"early": (CLAIM, "got       2")})
    assert again == [Kind(("middle", "early", "other"), A)]


def test_an_answer_that_is_told_something_else_changes_its_kind() -> None:
    known = [Kind(("a", "b"), A), Kind(("c",), B)]
    assert regrouped(known, "abc", {"b": B}) == [Kind(("a",), A), Kind(("c", "b"), B)]


def test_the_others_are_judged_where_the_first_of_a_kind_may_go() -> None:
    known = [Kind(("a", "b"), A), Kind(("c",), B)]
    assert with_their_kind(known, "abc", {"a"}) == {"a", "b"}
    assert with_their_kind(known, "abc", {"b"}) == {"b"}
    assert with_their_kind(known, "bc", {"c"}) == {"b", "c"}
    assert regrouped(known, "bc", {"b": A, "c": B}) == [Kind(("c",), B), Kind(("b",), A)]


def test_what_is_written_is_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slug = "linear_layer"
    kinds = texts.read(slug)
    before = (texts.FOLDER / f"{slug}.txt").read_text(encoding="utf-8")
    monkeypatch.setattr(texts, "FOLDER", tmp_path)
    assert texts.write(BY_SLUG[slug], reversed(kinds)).read_text(encoding="utf-8") == before
    assert texts.read(slug) == kinds
