"""Classes by somebody who had not seen the code, judged end to end as their labels say."""

import pytest

from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox
from tests.forms.bank import Form, list_forms

UNDECIDED = {
    "023": "each head projects a slice of the input of its own: no canonical weights say so",
    "040": "it has two output layers, one after the other: no canonical weights say so",
    "050": "each head is as wide as the model: no canonical weights say so",
    "067": "a mask that hides the real tokens is one of the other polarity, as far as calls tell",
    "087": "attention over the batch is attention that takes the tokens first",
    "123": "a number in the denominator is a known mistake, and here on purpose",
}
"""classes whose label cannot be told from what they compute, and why"""
MISJUDGED = {
    "081": "wrong, but not recognised: all heads share one projection",
    "092": "wrong, but not recognised: it makes its layers when it is called",
}
"""classes that are not judged as labelled, and why"""
FORMS = [form for label in ("right", "wrong", "other") for form in list_forms(label)]
DECIDED = [form for form in FORMS if form.number not in UNDECIDED]
SAMPLE = [form for form in FORMS if form.number in ("056", "090", "119")]


def name(form: Form) -> str:
    return form.file.removesuffix(".py")


def judge_file(form: Form) -> tuple[SubmissionRecord, list[str | None]]:
    """The record of the class, and the names of what else is accused in its file."""
    [handed_in] = find_submissions([str(form.path)])
    records = grade_file_or_raise(UnconfinedSandbox("a test"), handed_in, Settings())
    own = next((record for record in records if record.name == form.cls), records[0])
    others = [r.name for r in records if r is not own and r.properties and r.status != "passed"]
    return own, others


def is_judged_as_labelled(record: SubmissionRecord, label: str) -> bool:
    """Whether the right passes, the wrong fails, and the other is not accused."""
    passes = record.status == "passed"
    accused = bool(record.properties) and not passes
    return {"right": passes, "wrong": accused, "other": not accused}[label]


def test_at_least_ninety_seven_in_a_hundred_are_judged_as_labelled() -> None:
    assert set(MISJUDGED) <= {form.number for form in DECIDED}
    assert 1 - len(MISJUDGED) / len(DECIDED) >= 0.97


@pytest.mark.sampled("form", DECIDED, SAMPLE, ids=name)
def test_it_is_judged_as_labelled(form: Form) -> None:
    record, accused = judge_file(form)
    if form.label == "right":
        assert accused == [], "what it uses is judged by an exercise that it does not answer"
    broken = [(p.name, p.message) for p in record.properties if p.status != "passed"]
    as_labelled = is_judged_as_labelled(record, form.label)
    if form.number in MISJUDGED:
        assert not as_labelled, "it is judged as labelled now: take it from the list"
    else:
        assert as_labelled, (form.what, form.fault, record.error, broken)


@pytest.mark.sampled("number", UNDECIDED, ["023"], ids=str)
def test_what_cannot_be_told_is_not_accused_for_its_form(number: str) -> None:
    record, _ = judge_file(next(form for form in FORMS if form.number == number))
    accused = bool(record.properties) and record.status != "passed"
    assert accused == (number == "123"), UNDECIDED[number]
