"""Similar submissions: copies are found whatever they look like, independent answers are not."""

import ast
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcheck.exercises import ALL, BY_SLUG, Exercise, starter
from headcheck.exercises.answers import list_answers
from headcheck.grader.course.similar import rendering
from headcheck.grader.course.similar.documents import SimilarityReport
from headcheck.grader.course.similar.pairs import (
    MAX_HOLDERS,
    MIN_SHARE,
    MIN_WORDS,
    Document,
    SimilarSubmissions,
    find_similar,
)
from headcheck.grader.course.similar.winnowing import GRAM, WINDOW, hash_grams, winnow
from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.token_units import extract_units

EXERCISE = BY_SLUG["causal_attention"]
BASES = ("plain", "boolean_buffer", "mask_made_in_forward")
"""right answers that others are made from: unlike the rest, they were not written to differ"""


def independent(exercise: Exercise) -> dict[str, str]:
    """The right answers that were written to differ, by name."""
    right = list_answers(exercise, "right")
    return {answer.name: answer.source for answer in right if answer.name not in BASES}


RIGHT = independent(EXERCISE)
ONE = RIGHT["online_softmax_in_blocks"]


def document(student: str, text: str) -> Document:
    return Document(student, f"{student}.py", extract_units(read_source(text.encode(), "py")))


def given_out(exercise: Any) -> list[Document]:
    return [document("", starter.render_module(exercise)), document("", exercise.solution)]


BASE = given_out(EXERCISE)
CLASS = [document(name, text) for name, text in RIGHT.items()]


class Renamed(ast.NodeTransformer):
    """Other names for variables and parameters, and no docstrings."""

    def __init__(self, names: set[str]) -> None:
        self.names = {name: f"v{i}" for i, name in enumerate(sorted(names))}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.names.get(node.arg, node.arg))


def disguised(text: str, *, inserted: int = 0, seed: int = 0) -> str:
    """A copy: renamed, reordered, without comments; `inserted` idle statements in a function."""
    chance = random.Random(seed)
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    named = {node.arg for node in nodes if isinstance(node, ast.keyword)}
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    tree = Renamed(bound - named - {"self", None}).visit(tree)
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            chance.shuffle(node.body)
        if isinstance(node, ast.FunctionDef):
            for _ in range(inserted):
                idle = chance.choice(["extra = []", "count = 17 + 0", "assert 1 == 1", "print(1)"])
                node.body.insert(chance.randrange(len(node.body)), ast.parse(idle).body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def couples(alike: SimilarSubmissions) -> set[frozenset[str]]:
    """The students who are said to be alike, two by two."""
    pairs = {frozenset((pair.one.student, pair.other.student)) for pair in alike.pairs}
    groups = [[each.student for each in group.documents] for group in alike.groups]
    return pairs | {frozenset(two) for group in groups for two in pairwise(group)}


# ------------------------------------------------------------------------ winnowing

WORDS = st.lists(st.sampled_from(["=", "softmax(", "$0", "$1", "$7", "matmul(", "-1"]), max_size=60)


@given(WORDS, WORDS, WORDS, WORDS, WORDS)
def test_a_shared_run_that_is_long_enough_shares_a_fingerprint(
    before: list[str], after: list[str], other: list[str], another: list[str], shared: list[str]
) -> None:
    run = (shared * (GRAM + WINDOW))[: GRAM + WINDOW - 1] if shared else ["x"] * (GRAM + WINDOW)
    one = winnow(hash_grams([*before, *run, *after]))
    two = winnow(hash_grams([*other, *run, *another]))
    assert set(one.values()) & set(two.values())


@given(WORDS)
def test_every_window_has_a_fingerprint(words: list[str]) -> None:
    hashes = hash_grams(words)
    kept = winnow(hashes)
    assert all(hashes[place] == value for place, value in kept.items())
    for i in range(len(hashes) - WINDOW + 1):
        assert any(place in kept for place in range(i, i + WINDOW))
    assert not set(winnow(hashes, set(hashes)).values()), "what is left out is no fingerprint"


def test_names_count_within_a_gram_only() -> None:
    words = ["def", "$0", "$1", "=", "$2", "call(", "$3", "$1", "return", "$2"]
    assert len(words) == GRAM
    later = " ".join(words).replace("$", "$1").split()
    assert hash_grams(words) == hash_grams(later)
    swapped = [{"$1": "$2", "$2": "$1"}.get(word, word) for word in words[:-1]] + ["$2"]
    assert hash_grams(words) != hash_grams(swapped)
    assert hash_grams(words[:-1]) == [] and winnow([]) == {}


# ------------------------------------------------------------------------ pairs


def test_a_renamed_and_reordered_copy_is_the_same() -> None:
    alike = find_similar([*CLASS, document("copy", disguised(ONE))], BASE)
    (group,) = alike.groups
    assert [each.student for each in group.documents] == ["online_softmax_in_blocks", "copy"]
    assert couples(alike) == {frozenset(("online_softmax_in_blocks", "copy"))} | couples(
        find_similar(CLASS, BASE)
    )


def test_a_copy_with_statements_put_between_is_found_with_the_places() -> None:
    copy = document("copy", disguised(ONE, inserted=1))
    alike = find_similar([*CLASS, copy], BASE)
    (pair,) = [pair for pair in alike.pairs if copy in (pair.one, pair.other)]
    assert {pair.one.student, pair.other.student} == {"online_softmax_in_blocks", "copy"}
    assert pair.share >= MIN_SHARE and pair.words >= MIN_WORDS
    for passage in pair.passages:
        assert passage.one.unit == passage.other.unit
        assert 1 <= passage.one.first <= passage.one.last


def test_independent_answers_are_not_reported_as_similar() -> None:
    """Of 18 right answers, two pairs: the shortest there are, and two in the course's own words."""
    assert couples(find_similar(CLASS, BASE)) == {
        frozenset(("checkpointed", "one_token_fast_path")),
        frozenset(("in_place_masking", "mask_moved_in_forward")),
    }


def test_given_code_does_not_count_as_similar() -> None:
    text = starter.render_module(EXERCISE)
    class_ = [document("a", text), document("b", f"{text}\n# mine\n"), document("c", text)]
    alike = find_similar(class_, BASE)
    assert couples(alike) == set() and alike.too_small == 3
    lecture = document("", ONE)
    both = [document("a", ONE), document("b", disguised(ONE, inserted=1))]
    assert couples(find_similar(both, BASE)) and not couples(find_similar(both, [*BASE, lecture]))


def test_common_code_does_not_count_as_similar() -> None:
    def lonely(i: int) -> str:
        return "\n".join(f"def f{j}(x):\n    return x.a{i}_{j}(x, {j % 4}, x)" for j in range(8))

    several = [document(f"s{i:02}", f"{ONE}\n{lonely(i)}") for i in range(3 * MAX_HOLDERS)]
    assert couples(find_similar(several, BASE)) == set()
    few = several[:3]
    assert len(couples(find_similar(few, BASE))) == 3, "the same passages, in few hands"


def test_files_of_one_student_are_not_compared_with_each_other() -> None:
    assert (
        couples(find_similar([document("a", ONE), document("a", disguised(ONE, inserted=1))]))
        == set()
    )
    assert couples(find_similar([document("a", ONE), document("a", disguised(ONE))])) == set()


def test_short_answers_are_not_compared() -> None:
    text = "def f(a):\n    return a.x(a) + a.y(a) @ a"
    alike = find_similar([document("a", text), document("b", text)])
    assert (couples(alike), alike.too_small) == (set(), 2)


def test_the_same_class_gives_the_same_pairs() -> None:
    again = find_similar(list(reversed(CLASS)), BASE)
    assert couples(again) == couples(find_similar(CLASS, BASE))
    assert find_similar(CLASS, BASE) == find_similar(CLASS, BASE)


def test_error_rate_on_the_answer_bank() -> None:
    """The figures of docs/adr/0019: independent right answers, and copies of them."""
    false, pairs = 0, 0
    for exercise in ALL:
        documents = [document(name, text) for name, text in independent(exercise).items()]
        alike = find_similar(documents, given_out(exercise))
        assert alike.groups == ()
        false += len(alike.pairs)
        pairs += len(documents) * (len(documents) - 1) // 2
    assert pairs > 1000
    assert false / pairs < 0.015


# ------------------------------------------------------------------------ shown


def compared(documents: list[Document]) -> SimilarityReport:
    alike = find_similar(documents)
    return SimilarityReport(
        "week 1", alike, tuple(() for _ in alike.pairs), 2, ("eve: \x1b[1m.py",)
    )


def test_output_warns_that_similarity_is_no_proof() -> None:
    alike = compared([document("<b>ada", ONE), document("bob", disguised(ONE, inserted=1))])
    text, page = rendering.format_text(alike), rendering.render_page(alike, "1.0")
    assert "Similarity is not a proof" in text and "Similarity is not a proof" in page
    assert "<b>ada" in text and "<b>ada" not in page and "&lt;b&gt;ada" in page
    assert "\x1b" not in text + page and "\\x1b" in text and "\\x1b" in page
    assert "0 groups of the same, 1 pair alike" in text


def test_no_similar_pairs_gives_no_warning() -> None:
    alike = compared([document("ada", ONE)])
    assert "Likeness" not in rendering.format_text(alike)
    assert "No two are." in rendering.render_page(alike, "1.0")


def test_a_file_that_is_no_submission_cannot_be_given(tmp_path: Path) -> None:
    from headcheck.grader.course.similar.documents import HandoutError, _read_handout

    for name in ("none.py", "text.txt"):
        with pytest.raises(HandoutError, match=r"name a \.ipynb or a \.py file"):
            _read_handout(tmp_path / name)
