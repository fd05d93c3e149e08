"""A repair takes the one edit that the code names. It never chooses what attention is."""

from dataclasses import replace

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.cells import read_source
from headcheck.grader.sandbox.worker.slips import find_nearest, list_slips
from headcheck.properties.terms.depth import Depth
from tests.grader.conftest import GradeText

EXERCISE = BY_SLUG["simplified_attention"]
ASKED = Settings(exercise=EXERCISE)
NAME = EXERCISE.contract.name
HEAD = f"import torch\nimport torch.nn.functional as F\n\n\ndef {NAME}(x):\n"
RIGHT = (
    "    scores = x @ x.mT\n    weights = torch.softmax(scores, dim=-1)\n    return weights @ x\n"
)
GUESSES = [
    f"def way_{i}(s, x):\n    return torch.softmax({scores}, dim={dim}) @ x\n"
    for i, (scores, dim) in enumerate(
        (scores, dim) for scores in ("-s", "s / 2", "s", "s * 2") for dim in (0, -2, -1)
    )
]
STOPPING = {
    "axis": RIGHT.replace("dim=-1", "dim=7"),
    "no axis": RIGHT.replace(", dim=-1", ""),
    "exchanged": RIGHT.replace("scores, dim=-1", "-1, scores"),
    "transpose": RIGHT.replace("x.mT", "x.transpose(0, 5)"),
    "not transposed": RIGHT.replace("x.mT", "x"),
    "operator": RIGHT.replace("x @ x.mT", "x + x.mT"),
    "number": RIGHT.replace("scores,", "scores[:, :, 0],"),
    "division": RIGHT.replace("weights @ x", "weights[: len(x) / 1] @ x"),
    "left out": RIGHT.replace("dim=-1", "dim=-1, sharp=True"),
    "unlike": RIGHT.replace("weights @", "attention @"),
    "two names": RIGHT.replace("torch.softmax(scores", "torch.sofmax(scroes"),
}
"""answers that stop, each of which another operator, number, axis, order or name repairs"""


def guess(call: str) -> str:
    ways = "\n\n".join(GUESSES)
    body = f"    s = x @ x.mT\n{call}"
    return f"import torch\n\n\n{ways}\n\ndef {NAME}(x):\n{body}"


def test_the_answers_here_are_right_but_for_what_is_changed(grade_text: GradeText) -> None:
    assert grade_text(HEAD + RIGHT, ASKED).status == "passed"
    assert grade_text(guess("    return way_8(s, x)\n"), ASKED).status == "passed"


@pytest.mark.parametrize("kind", STOPPING)
def test_what_a_student_decides_is_not_repaired(grade_text: GradeText, kind: str) -> None:
    record = grade_text(HEAD + STOPPING[kind], ASKED)
    assert (record.repair, record.score) == (None, 0)


@pytest.mark.parametrize(
    "call",
    [
        "    return way(s, x)\n",
        "    return way_(s, x)\n",
        "    return ways(s, x)\n",
        "    return way_88(s, x) if len(x) else way_77(s, x)\n",
        "    return {}[way_](s, x)\n",
        "    raise NotImplementedError if way else NotImplementedError(ways)\n",
    ],
)
def test_no_guess_is_chosen_among_several(grade_text: GradeText, call: str) -> None:
    record = grade_text(guess(call), ASKED)
    assert (record.repair, record.score) == (None, 0)


def test_guesses_that_wait_for_their_own_slips_are_not_tried(grade_text: GradeText) -> None:
    """Each would be called if its own name were repaired, and the right one is among them."""
    tries = "".join(
        f"    try:\n        return wya_{i}(s, x)\n    except NameError:\n        pass\n"
        for i in range(len(GUESSES))
    )
    record = grade_text(guess(f"{tries}    return wya_3(s, x)\n"), ASKED)
    assert (record.repair, record.score) == (None, 0)


@pytest.mark.parametrize("scores", ["s / 2", "-s"])
def test_a_stop_on_purpose_earns_no_more_than_the_guess_behind_it(
    grade_text: GradeText, scores: str
) -> None:
    honest = HEAD + RIGHT.replace("scores, dim", f"{scores}, dim").replace("scores =", "s =")
    earned = grade_text(honest, ASKED)
    assert earned.status == "failed"
    for slip in (
        ("torch.softmax", "torch.sofmax"),
        ("    s =", "    raise NotImplementedError\n    s ="),
    ):
        stopped = grade_text(honest.replace(*slip), ASKED)
        assert stopped.score <= earned.score
        assert stopped.repair is None


# -------------------------------------------------------------------------- the same rules


FUSED = "    q = x[None]\n    return F.scaled_dot_product_attention(q, q, q, scale=1.0)[0]\n"


def test_a_prohibited_call_is_no_slip(grade_text: GradeText) -> None:
    """The edits of the line that stops would compute the same."""
    text = HEAD + FUSED.replace("(q, q, q,", "(q.mT.T.mT.T, q, q,")
    record = grade_text(text, replace(ASKED, by_hand=True))
    assert (record.repair, record.status, record.score) == (None, "crashed", 0)


def test_what_calls_what_is_prohibited_is_not_repaired(grade_text: GradeText) -> None:
    text = HEAD + FUSED.replace("x[None]", "y[None]").replace("    q =", "    xy = x\n    q =")
    text = text.replace("y[None]", "xyy[None]")
    allowed = grade_text(text, ASKED)
    assert allowed.repair is not None and allowed.status == "repaired"
    refused = grade_text(text, replace(ASKED, by_hand=True))
    assert (refused.repair, refused.score) == (None, 0)


@pytest.mark.parametrize("depth", Depth)
def test_as_much_is_asked_of_a_repaired_answer(grade_text: GradeText, depth: Depth) -> None:
    settings = replace(ASKED, depth=depth)
    whole = grade_text(HEAD + RIGHT, settings)
    repaired = grade_text(HEAD + RIGHT.replace("torch.softmax", "torch.sofmax"), settings)
    assert [p.name for p in repaired.properties] == [p.name for p in whole.properties]
    assert repaired.score == pytest.approx(0.85 * whole.score, abs=0.01)


def test_what_earns_nothing_is_not_repaired(grade_text: GradeText) -> None:
    """A price of nothing would be told beside groups of nothing."""
    groups = {prop.group.value: 0.0 for prop in EXERCISE.properties}
    text = HEAD + RIGHT.replace("torch.softmax", "torch.sofmax")
    assert grade_text(text, replace(ASKED, points={EXERCISE.slug: groups})).repair is None


# ------------------------------------------------------------------------------- spelling


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("querys", ("queries", "keys", "values"), "queries"),
        ("wieghts", ("weights", "width"), "weights"),
        ("way", ("way_1", "way_2"), None),
        ("whichever", ("c000", "c001"), None),
        ("q", ("k", "v"), None),
        ("keyz", ("keys", "keyy"), None),
        ("sofmax", ("_softmax", "softmax"), "softmax"),
    ],
)
def test_a_word_means_the_nearest_one_or_nothing(
    word: str, known: tuple[str, ...], meant: str | None
) -> None:
    assert find_nearest(word, known) == meant


def test_an_import_is_for_a_name_that_nothing_binds() -> None:
    text = "class A:\n    def forward(self, x):\n        math = 1\n        return np.exp(math)\n"
    [edit] = list_slips(read_source(text.encode(), "py"), "A", (None, 4))
    assert edit.after == "import numpy as np"
