"""Answers that are loaded in this process."""

import sys
from types import ModuleType
from typing import Any

from headcheck.exercises import Exercise
from headcheck.exercises.answers import Answer, find_answer
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property
from headcheck.properties.violations.violation import SubmissionFailed, Violation


def execute(*sources: str) -> dict[str, Any]:
    """Execute sources in one new module, by whose name their classes can be found."""
    module = ModuleType("submission")
    sys.modules["submission"] = module
    for source in sources:
        exec(compile(source, "submission.py", "exec"), vars(module))
    return vars(module)


def load_source(source: str, contract: Contract) -> Harness:
    return Harness(make_subject(execute(source)), contract)


def load(answer: Answer, exercise: Exercise) -> Harness:
    return load_source(answer.source, exercise.contract)


def holds(prop: Property, exercise: Exercise, name: str) -> bool:
    """Return whether a property holds for a known answer; it has cases for it."""
    harness = load(find_answer(exercise, name), exercise)
    cases = generate_case_set(harness.contract, exercise.cases)
    chosen = prop.select_cases(harness.contract, cases)
    assert chosen
    try:
        for case in chosen:
            prop.check(harness.get_context(case))
    except (Violation, SubmissionFailed):
        return False
    return True
