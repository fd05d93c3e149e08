"""The author of every wrong answer is told what was read and found good, of each kind once.

What differs is not wrong by itself: write it anew by `python -m tests.golden SLUG`, and read it.
"""

import sys
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.sandbox.grader_side.servers import ServerHandle
from tests.golden import texts
from tests.golden.bank import list_wrong_answers, render_feedback
from tests.golden.texts import MistakeKind, add_whole_kinds, compute_key, mask_numbers, regroup

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server is Linux's")

SAMPLE = (
    "linear_layer/view_of_strided_input",
    "causal_attention/masked_fill_result_lost",
    "multi_head_attention/heads_interleaved",
)


# ----------------------------------------------------------------- what needs no judging


@pytest.mark.parametrize("slug", BY_SLUG)
def test_every_wrong_answer_is_of_one_kind(slug: str) -> None:
    kept = [name for kind in texts.load_kinds(slug) for name in kind.names]
    assert sorted(kept) == sorted(answer.name for answer in list_wrong_answers(slug))
    keys = [kind.key for kind in texts.load_kinds(slug)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("slug", BY_SLUG)
def test_claims_mistakes_and_hints_are_still_worded_so(slug: str) -> None:
    kinds = texts.load_kinds(slug)
    again = "python -m tests.golden --reworded"
    assert not texts.find_reworded(BY_SLUG[slug], kinds), again
    assert texts.load_legend(slug) == texts.list_hints(BY_SLUG[slug], kinds), again


# ----------------------------------------------------------------- what is judged anew


@pytest.mark.parametrize("answer", SAMPLE)
def test_sampled_feedback_matches_the_golden_files(server: ServerHandle, answer: str) -> None:
    slug, name = answer.split("/")
    [kind] = [kind for kind in texts.load_kinds(slug) if name in kind.names]
    must_be_told(server, slug, name, kind)


@pytest.mark.deep
@pytest.mark.parametrize("slug", BY_SLUG)
def test_all_feedback_matches_the_golden_files(server: ServerHandle, slug: str) -> None:
    for kind in texts.load_kinds(slug):
        for name in kind.names:
            must_be_told(server, slug, name, kind)


def must_be_told(server: ServerHandle, slug: str, name: str, kind: MistakeKind) -> None:
    """The text itself for the first of a kind, one of the same kind for the others."""
    text = render_feedback(server, slug, find_answer(BY_SLUG[slug], name))
    if name == kind.names[0]:
        assert mask_numbers(text) == mask_numbers(kind.text), name
    else:
        assert compute_key(text) == kind.key, name


# ----------------------------------------------------------------- how texts are compared


def test_rounded_numbers_are_not_compared() -> None:
    one, other = ("expected  0.771098 ± 1e-06",), ("expected  0.771099 ± 2e-06",)
    assert mask_numbers(one) == mask_numbers(other) == ("expected  # ± #",)
    assert mask_numbers(("got       2 of 4 at output[0, 1]",)) == (
        "got       2 of 4 at output[0, 1]",
    )


CLAIM = "claim     It is right."


def test_a_kind_is_what_is_named_and_the_claim_wherever_it_shows() -> None:
    one = ("mistake   It is late. (line 3)", CLAIM, "got       1; 1 of 2 are off")
    other = ("mistake   It is late. (cell 2, line 5)", CLAIM, "got       RuntimeError: no")
    assert compute_key(one) == compute_key(other) == ("mistake   It is late.", CLAIM)
    assert compute_key(("mistake   It is early.", *one[1:])) != compute_key(one)
    assert compute_key((one[0], "claim     It is there.")) != compute_key(one)


def test_without_a_name_a_kind_is_how_the_message_begins() -> None:
    one = (CLAIM, "expected  0.5 ± 1e-06 at output[0, 1]", "got       nan; 1 of 2 are off", "on  a")
    other = (CLAIM, "expected  -2 ± 3e-07 at output[3]", "got       7.25; 9 of 9 are off")
    assert compute_key(one) == compute_key(other)
    assert compute_key((CLAIM, one[1], "got       RuntimeError: no")) != compute_key(one)


# ----------------------------------------------------------------- how they are kept


A, B = (CLAIM, "got       1"), (CLAIM, "got       nothing")


def test_a_new_answer_of_a_known_kind_adds_its_name_only() -> None:
    known = MistakeKind(("middle", "other"), A)
    again = regroup([known], {"middle", "other", "early"}, {"early": (CLAIM, "got       2")})
    assert again == [MistakeKind(("middle", "early", "other"), A)]


def test_an_answer_that_is_told_something_else_changes_its_kind() -> None:
    known = [MistakeKind(("a", "b"), A), MistakeKind(("c",), B)]
    assert regroup(known, "abc", {"b": B}) == [MistakeKind(("a",), A), MistakeKind(("c", "b"), B)]


def test_the_others_are_judged_where_the_first_of_a_kind_may_go() -> None:
    known = [MistakeKind(("a", "b"), A), MistakeKind(("c",), B)]
    assert add_whole_kinds(known, "abc", {"a"}) == {"a", "b"}
    assert add_whole_kinds(known, "abc", {"b"}) == {"b"}
    assert add_whole_kinds(known, "bc", {"c"}) == {"b", "c"}
    assert regroup(known, "bc", {"b": A, "c": B}) == [
        MistakeKind(("c",), B),
        MistakeKind(("b",), A),
    ]


def test_what_is_written_is_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slug = "linear_layer"
    kinds = texts.load_kinds(slug)
    before = (texts.FOLDER / f"{slug}.txt").read_text(encoding="utf-8")
    monkeypatch.setattr(texts, "FOLDER", tmp_path)
    assert texts.write_kinds(BY_SLUG[slug], reversed(kinds)).read_text(encoding="utf-8") == before
    assert texts.load_kinds(slug) == kinds
