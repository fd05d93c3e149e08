"""Every kept answer can be drawn: a wrong one may have a picture, a right one has none."""

import xml.etree.ElementTree as ET

import pytest

from exercises import ALL, BY_SLUG, Exercise
from exercises.answers import Answer, list_answers
from grader.judging.evidence import pictured
from grader.judging.session import Session
from grader.judging.subject import ChannelSubject
from grader.machine.unconfined import Unconfined
from grader.render.pictures import pictures
from grader.report import PropertyRecord
from grader.sandbox.limits import Limits
from properties.case import Case, MaskForm
from properties.property import Group, Property, Verdict
from properties.trial import Bench
from properties.violation import Kind, Status, SubmissionFailed, Violation

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
    session = Session(Unconfined("trusted"), answer.source.encode(), "py", Limits())
    contract = exercise.contract
    try:
        session.load(contract.name, *(other.name for other in contract.transfer or ()))
        bench = Bench(ChannelSubject(session), contract)
        case = contract.fit(CASE)
        verdicts = [
            Verdict(
                Property(group.value, group.value, group, judge=lambda trial: None),
                Status.FAILED,
                1,
                case,
                violation=Violation(Kind.VALUE, "1", "2"),
            )
            for group in (Group.VALUES, Group.MASK)
        ]
        records = [PropertyRecord(v.property.name, "", "", "", 0, 0) for v in verdicts]
        shown = pictured(records, verdicts, bench, ())
    except (SubmissionFailed, Violation):
        return 0  # it cannot be loaded or built: nothing would have been drawn
    found = [picture for record in shown for picture in pictures(record.evidence)]
    for panel in (panel for picture in found for panel in picture.panels):
        ET.fromstring(panel)
    return len(found)


@pytest.mark.parametrize("slug", [exercise.slug for exercise in ALL])
def test_right_answers_have_no_pictures(slug: str) -> None:
    exercise = BY_SLUG[slug]
    right = list_answers(exercise, "right")
    assert {a.name: drawn(exercise, a) for a in right} == {a.name: 0 for a in right}


@pytest.mark.parametrize("slug", [exercise.slug for exercise in ALL])
def test_no_wrong_answer_is_in_the_way_of_a_picture(slug: str) -> None:
    exercise = BY_SLUG[slug]
    assert all(drawn(exercise, answer) >= 0 for answer in list_answers(exercise, "wrong"))
