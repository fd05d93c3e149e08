"""Every kept answer can be drawn: a wrong one may have a picture, a right one has none."""

import xml.etree.ElementTree as ET

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.exercises.answers import Answer, list_answers
from headcheck.grader.grading.evidence import attach_evidence
from headcheck.grader.report.pictures.draw import draw_pictures
from headcheck.grader.report.records import PropertyRecord
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.grader.sandbox.limits import Limits
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, PropertyGroup, Verdict
from headcheck.properties.terms.case import Case, MaskForm
from headcheck.properties.violations.violation import (
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)

# A warning of torch about what an answer does is no exception anywhere else.
pytestmark = [pytest.mark.deep, pytest.mark.filterwarnings("ignore")]

CASE = Case(
    batch=2,
    tokens=3,
    context_length=4,
    d_in=3,
    heads=2,
    head_dim=2,
    mask_form=MaskForm.BATCH_HEAD_QUERY_KEY,
    seed=5,
)


def drawn(exercise: Exercise, answer: Answer) -> int:
    """How many pictures there are of an answer, as if its claims had failed; all well-formed."""
    session = Session(UnconfinedSandbox("trusted"), answer.source.encode(), "py", Limits())
    contract = exercise.contract
    try:
        session.load(contract.name, *(other.name for other in contract.transfer or ()))
        harness = Harness(ChannelSubject(session), contract)
        case = contract.fit(CASE)
        props = [
            Property(group.value, group.value, group, check=lambda context: None)
            for group in (PropertyGroup.VALUES, PropertyGroup.MASK)
        ]
        wrong = Violation(ViolationKind.VALUE, "1", "2")
        verdicts = [Verdict(prop, Status.FAILED, 1, case, violation=wrong) for prop in props]
        records = [PropertyRecord(v.property.name, "", "", "", 0, 0) for v in verdicts]
        shown = attach_evidence(records, verdicts, harness, ())
    except (SubmissionFailed, Violation):
        return 0  # it cannot be loaded or built: nothing would have been drawn
    found = [picture for record in shown for picture in draw_pictures(record.evidence)]
    for panel in (panel for picture in found for panel in picture.panels):
        ET.fromstring(panel)
    return len(found)


@pytest.mark.parametrize("slug", [exercise.slug for exercise in ALL])
def test_right_answers_have_no_pictures(slug: str) -> None:
    exercise = BY_SLUG[slug]
    right = list_answers(exercise, "right")
    assert {a.name: drawn(exercise, a) for a in right} == {a.name: 0 for a in right}


@pytest.mark.parametrize("slug", [exercise.slug for exercise in ALL])
def test_every_wrong_answer_can_be_pictured(slug: str) -> None:
    exercise = BY_SLUG[slug]
    assert all(drawn(exercise, answer) >= 0 for answer in list_answers(exercise, "wrong"))
