"""From a file to its record: what is drawn, which lines are shown, and where there is neither."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.report.records import (
    DiagnosisRecord,
    SubmissionRecord,
    build_report,
    from_json,
    to_json,
)
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.limits import Limits
from tests.grader.conftest import GradeNotebook

SLUG = "causal_attention"
SOLUTION = (BY_SLUG[SLUG].folder / "solution.py").read_text(encoding="utf-8")


def answer(name: str) -> str:
    return find_answer(BY_SLUG[SLUG], name).source


def drawn(record: SubmissionRecord) -> list[str]:
    return [p.name for p in record.properties if p.evidence is not None]


def test_a_wrong_answer_is_drawn_and_its_place_marked(grade_notebook: GradeNotebook) -> None:
    record = grade_notebook("import torch", answer("masked_after_softmax"), slug=SLUG)[
        "CausalAttention"
    ]
    assert drawn(record) == ["it_equals_the_equation", "the_future_is_invisible"]
    [found], [excerpt], place = record.diagnosis, record.source, record.place
    assert place is not None
    lines = tuple(at.line for at in place.lines)
    assert found.line == lines[-1]  # nothing in the code looks like the mistake
    assert (excerpt.cell, excerpt.marked) == (2, lines)
    marked = [excerpt.text.split("\n")[line - excerpt.line] for line in lines]
    assert any("masked_fill" in line for line in marked)
    assert all(line in answer("masked_after_softmax") for line in marked)
    assert from_json(to_json(build_report([record]))) == build_report([record])


def test_a_right_answer_has_nothing_to_show(grade_notebook: GradeNotebook) -> None:
    record = grade_notebook(SOLUTION, slug=SLUG)["CausalAttention"]
    assert record.status == "passed"
    assert drawn(record) == [] and record.source == ()


def test_a_cell_that_is_no_python_is_shown(grade_notebook: GradeNotebook) -> None:
    record = grade_notebook("x = 1", "class CausalAttention(\n    pass", slug=SLUG)[""]
    [excerpt] = record.source
    assert (excerpt.cell, excerpt.line, excerpt.marked) == (2, 1, (1,))
    assert excerpt.text == "class CausalAttention(\n    pass"


def test_the_line_that_raises_is_shown(grade_notebook: GradeNotebook) -> None:
    raising = answer("no_mask").replace("return ", "raise ValueError(x.shape)\n        return ")
    record = grade_notebook(raising, slug=SLUG)["CausalAttention"]
    [excerpt] = record.source
    [marked] = excerpt.marked
    assert "raise ValueError" in excerpt.text.split("\n")[marked - excerpt.line]


def test_a_definition_that_cannot_be_loaded_is_shown(grade_notebook: GradeNotebook) -> None:
    record = grade_notebook(
        "import torch\n1 / 0\nclass CausalAttention(1 / 0):\n    pass", slug=SLUG
    )["CausalAttention"]
    assert record.error is not None
    [excerpt] = record.source
    assert excerpt.marked == (record.error.line,)


def test_no_picture_if_the_process_is_gone(
    grade_notebook: GradeNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(session: Session, *rest: object) -> list[DiagnosisRecord]:
        session.close()
        return []

    monkeypatch.setattr("headcheck.grader.grading.diagnosis.record_diagnoses", gone)
    record = grade_notebook(answer("no_mask"), slug=SLUG)["CausalAttention"]
    assert record.status == "failed"
    assert drawn(record) == [] and record.source == ()


@pytest.mark.confined
def test_no_picture_if_the_process_ends_meanwhile(
    grade_notebook: GradeNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(session: Session, *rest: object) -> list[DiagnosisRecord]:
        assert session.child is not None
        session.child.close()
        monkeypatch.setattr(Session, "is_alive", True)
        return []

    monkeypatch.setattr("headcheck.grader.grading.diagnosis.diagnose_failures", lambda *given: ())
    monkeypatch.setattr("headcheck.grader.grading.diagnosis.record_diagnoses", ended)
    record = grade_notebook(answer("no_mask"), slug=SLUG)["CausalAttention"]
    assert drawn(record) == []


def test_verdicts_do_not_depend_on_pictures(
    grade_notebook: GradeNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_pictures = grade_notebook(answer("no_mask"), slug=SLUG)["CausalAttention"]
    monkeypatch.setattr(
        "headcheck.grader.grading.evidence.attach_evidence", lambda records, *rest: records
    )
    without = grade_notebook(answer("no_mask"), slug=SLUG)["CausalAttention"]
    assert drawn(with_pictures) and not drawn(without)
    assert with_pictures.score == without.score
    assert with_pictures.diagnosis == without.diagnosis
    assert [p.message for p in with_pictures.properties] == [p.message for p in without.properties]


STUCK = SOLUTION.replace(
    "        tokens = x.shape[1]\n", "        while x.shape[1] > 1:\n            pass\n"
)


def test_hanging_call_is_not_repeated(grade_notebook: GradeNotebook) -> None:
    record = grade_notebook(STUCK, slug=SLUG, limits=Limits(call_s=0.5, total_s=6))[
        "CausalAttention"
    ]
    assert record.status != "passed"
    assert drawn(record) == []
