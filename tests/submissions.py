"""Answers that are loaded in this process."""

import sys
from collections.abc import Iterable, Set
from types import ModuleType
from typing import Any

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.exercises.answers import Answer, find_answer
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.families import ALL, select_for_contract
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import SubmissionFailed, Violation


def execute(*sources: str) -> dict[str, Any]:
    """Execute sources in one new module, by whose name their classes can be found."""
    module = ModuleType("submission")
    sys.modules["submission"] = module
    for source in sources:
        exec(compile(source, "submission.py", "exec"), vars(module))
    return vars(module)


def load_source(source: str, contract: Contract) -> Harness:
    return Harness(make_subject(execute(source), source), contract)


def load(answer: Answer, exercise: Exercise) -> Harness:
    return load_source(answer.source, exercise.contract)


def holds(prop: Property, exercise: Exercise, name: str) -> bool:
    """Return whether a property holds for a known answer; it has cases for it."""
    harness = load(find_answer(exercise, name), exercise)
    cases = generate_case_set(harness.contract, exercise.cases)
    chosen = prop.select_cases(harness.contract, cases)
    assert chosen
    return not accuse(prop, harness, chosen)


def accuse(prop: Property, harness: Harness, cases: Iterable[Case]) -> str:
    """Return what a property says against an implementation; nothing if it holds."""
    for case in cases:
        try:
            prop.check(harness.get_context(case))
        except (Violation, SubmissionFailed) as reason:
            return f"{prop.name} on {case}: {reason}"
    return ""


def find_broken(exercise: Exercise, function: object, asked: Iterable[Property]) -> set[Property]:
    """Return the properties that a function breaks on the first case of each."""
    contract = exercise.contract
    harness = Harness(make_subject({contract.name: function}), contract)
    cases = generate_case_set(contract, exercise.cases)
    first = {prop: prop.select_cases(contract, cases)[0] for prop in asked}
    return {p for p, case in first.items() if accuse(p, harness, [case])}


def assert_asked_with(capability: Capability, properties: Set[Property]) -> None:
    """Some of these are asked in every exercise with the capability, and none in any other."""
    assert properties <= set(ALL)
    for slug, exercise in BY_SLUG.items():
        asked = set(select_for_contract(exercise.contract)) & properties
        assert bool(asked) is exercise.contract.has(capability), slug
