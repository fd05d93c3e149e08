"""Judge functions of a file that make what calls of its classes are given: masks, rotary tables.

A class without an exercise is called with masks and tables that headcheck makes. Whoever uses the
class gets them from such a function. So the function is judged, too, by what it makes for a few
tokens, and has a record of its own.
"""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from headcheck.grader.grading.claim_records import MAX_RECORDS, record_findings
from headcheck.grader.grading.claims import Claim, JudgedClaim
from headcheck.grader.grading.helper_calls import (
    OF_TABLES,
    HelperCall,
    HelperFinding,
    HelperQuestion,
    choose_call,
)
from headcheck.grader.grading.infer import Inferred
from headcheck.grader.grading.made_masks import ask_about_masks
from headcheck.grader.grading.made_tables import ask_about_tables
from headcheck.grader.grading.places.locate import MAX_LINES
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.helpers import Helper
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.records import NoteRecord, SubmissionRecord, shorten
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.properties.binding import grounds
from headcheck.properties.binding.calls import list_mask_names
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.terms.group import PropertyGroup
from headcheck.properties.violations.violation import SubmissionFailed


def judge_helpers(
    reading: Session,
    settings: Settings,
    submission: Submission,
    inferred: Inferred,
    contracts: Sequence[Contract],
) -> tuple[list[SubmissionRecord], list[NoteRecord]]:
    """Return the records of functions that make something for classes with these contracts.

    Notes name functions that make no tables when they are called as those that make tables.
    """
    records, notes, wrong = list[SubmissionRecord](), list[NoteRecord](), set[str]()
    made = {each.name.rpartition(".")[2] for each in inferred.helpers}
    ordered = sorted(inferred.helpers, key=lambda each: bool(made & {*each.calls}))
    if _take_several_masks(inferred, contracts):  # whose polarities may differ
        ordered = [replace(each, passed=False) for each in ordered]
    asked = [(each, _ask(each, contracts, inferred.padding)) for each in ordered]
    for helper, questions in [pair for pair in asked if pair[1]][:MAX_RECORDS]:
        if wrong & {*helper.calls}:
            continue  # what it makes is wrong for the same reason
        limits = settings.get_limits(settings.exercise)
        with contextlib.closing(reading.start_successor(limits)) as session:
            began, answer = time.monotonic(), _find_answer(session, helper, questions)
            if answer is not None:
                records.append(_record(session, submission, helper, answer, began))
                wrong |= set() if answer[1].is_right else {helper.name.rpartition(".")[2]}
            elif questions[0].group is PropertyGroup.VALUES:
                text = f"what `{helper.name}` makes is not known: tables are the equation's"
                notes.append(NoteRecord("recognised", shorten(text)))
    return records, notes


def _take_several_masks(inferred: Inferred, contracts: Sequence[Contract]) -> bool:
    signatures = filter(None, (inferred.signatures.get(each.name) for each in contracts))
    return any(len(list_mask_names(each.call)) > 1 for each in signatures)


def _ask(
    helper: Helper, contracts: Sequence[Contract], padding: Sequence[int]
) -> list[HelperQuestion]:
    masks, tables = ask_about_masks(helper, contracts, padding), ask_about_tables(helper, contracts)
    return [*masks, *tables]


def _find_answer(
    session: Session, helper: Helper, questions: Sequence[HelperQuestion]
) -> tuple[HelperQuestion, HelperFinding] | None:
    """Return the first question with a right answer, or else with any."""
    found: tuple[HelperQuestion, HelperFinding] | None = None
    with contextlib.suppress(SubmissionFailed):
        session.load(helper.name.partition(".")[0])
        for question in questions:
            judged = question.judge(_make(session, helper, question.call))
            if judged is not None and (found is None or judged.is_right):
                found = question, judged
            if judged is not None and judged.is_right:
                break
    return found


def _make(session: Session, helper: Helper, call: HelperCall) -> tuple[Tensor, ...]:
    """Return what a function makes; nothing if it cannot be built. Raises SubmissionFailed."""
    built = choose_call(helper.constructor or (), OF_TABLES)
    if built is None or built.tensors or built.dtypes:
        return ()
    return session.make(
        helper.name,
        call.tensors,
        arguments=dict(call.numbers),
        dtypes=list(call.dtypes),
        constructor=None if helper.constructor is None else dict(built.numbers),
    )


def _record(
    session: Session,
    submission: Submission,
    helper: Helper,
    answer: tuple[HelperQuestion, HelperFinding],
    began: float,
) -> SubmissionRecord:
    """Return the record of a function, with its lines if it is wrong and they are few."""
    question, judged = answer
    claim = Claim("what_it_makes_is_right", question.claim, question.group)
    lines = helper.lines if len(helper.lines) <= MAX_LINES else (helper.line,)
    places = () if judged.is_right else tuple((helper.cell, line) for line in lines)
    case = "" if judged.is_right else str(question.call)
    judged_claim = JudgedClaim(claim, judged.expected, judged.got, case, places)
    called = grounds.MADE.say(str(question.call))
    return record_findings(session, submission, helper.name, [judged_claim], [called], began)
