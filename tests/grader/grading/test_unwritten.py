"""An untouched starter is told that nothing is written yet; whatever else is judged as usual."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.exercises.starter import PLACEHOLDER, render_module, render_notebook
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.unwritten import fingerprint_starter
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import SubmissionRecord, build_report
from headcheck.grader.report.render import html, text
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox
from headcheck.grader.ui.jupyter.checking import check_in_namespace, make_request

CAUSAL, LINEAR = BY_SLUG["causal_attention"], BY_SLUG["linear_layer"]
STARTER = render_module(CAUSAL)
SAID = (
    "Nothing is written yet: `CausalAttention` is still the starter. Write your code where it says "
    "`# your code here`. Stuck? headcheck hint causal_attention"
)
Grade = Callable[..., SubmissionRecord]


@pytest.fixture
def grade(tmp_path: Path) -> Grade:
    """Grades a text as a file, on an exercise."""

    def grade_text(
        content: str, exercise: Exercise = CAUSAL, ending: str = "py"
    ) -> SubmissionRecord:
        path = tmp_path / f"ada.{ending}"
        path.write_text(content, encoding="utf-8")
        [found] = find_submissions([str(path)])
        place = UnconfinedSandbox("a test")
        [record] = grade_file_or_raise(place, found, Settings(exercise=exercise))
        return record

    return grade_text


def is_unwritten(record: SubmissionRecord) -> bool:
    return record.error is not None and record.error.kind == "unwritten"


@pytest.mark.sampled("exercise", ALL, ALL[::4], ids=lambda exercise: exercise.slug)
def test_every_starter_is_recognised(exercise: Exercise, grade: Grade) -> None:
    for ending, render in {"py": render_module, "ipynb": render_notebook}.items():
        record = grade(render(exercise), exercise, ending)
        assert is_unwritten(record)
        assert (record.score, record.status, record.properties) == (0, "not_tried", ())
        assert record.max_score > 0


def test_a_starter_says_what_its_parts_are() -> None:
    names = ["CausalAttention", "MultiHeadAttentionWrapper"]
    assert list(fingerprint_starter(BY_SLUG["multi_head_wrapper"])) == names


@pytest.mark.parametrize(
    "changed",
    [
        STARTER.replace("\n\n", "\n\n\n"),
        STARTER.replace("    ...", "    # what comes here?\n        ..."),
        STARTER.replace('"""Attend over', '"""I shall attend over'),
        STARTER.replace(PLACEHOLDER, "pass"),
        f"import math\n{STARTER}\n\nprint('nothing yet')\n",
        STARTER.replace("\n", "\r\n"),
    ],
    ids=["blank lines", "comments", "docstring", "pass", "import and print", "other line ends"],
)
def test_what_does_nothing_is_no_change(changed: str, grade: Grade) -> None:
    assert changed != STARTER and is_unwritten(grade(changed))


@pytest.mark.parametrize(
    "changed",
    [
        STARTER.replace(PLACEHOLDER, "return x", 2).replace("return x", PLACEHOLDER, 1),
        f"{STARTER}\n\nCausalAttention.forward = lambda self, x: x\n",
        f"{STARTER}\n\nsetattr(CausalAttention, 'forward', lambda self, x: x)\n",
        f"{STARTER}\n\nclass CausalAttention(CausalAttention):\n    pass\n",
    ],
    ids=["one of two parts", "assigned later", "set later", "defined again"],
)
def test_what_is_begun_is_judged(changed: str, grade: Grade) -> None:
    record = grade(changed)
    assert record.error is None and record.properties


def test_one_written_definition_of_two_is_judged(grade: Grade) -> None:
    exercise = BY_SLUG["multi_head_wrapper"]
    starter = render_module(exercise)
    head, _, wrapper = starter.partition("class MultiHeadAttentionWrapper")
    written = head.replace(PLACEHOLDER, "self.W_query = nn.Linear(d_in, d_out)", 1)
    assert not is_unwritten(grade(f"{written}class MultiHeadAttentionWrapper{wrapper}", exercise))


def test_what_the_process_says_gives_no_points(grade: Grade) -> None:
    """Code that runs could at most say that nothing is written: that is worth nothing."""
    meddling = "import sys\nfor each in list(sys.modules.values()):\n    each.__dict__.clear()\n"
    assert grade(f"{meddling}{STARTER}").score == 0


def test_it_is_said_in_text_and_on_the_page(grade: Grade) -> None:
    report = build_report([grade(STARTER)])
    shown = text.render(report)
    assert shown.endswith(f"  0 / 125  not tried\n  {SAID}\n")
    page = html.render_page(report.submissions[0], report)
    assert "Not begun" in page and "Error" not in page


def test_it_is_said_in_a_process_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "begun.py").write_text(render_module(LINEAR), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    import begun  # type: ignore[import-not-found]

    result = check_in_namespace(begun.linear, make_request(), {"linear": begun.linear})
    assert is_unwritten(result.record)
    assert "Nothing is written yet: `linear`" in str(result)
