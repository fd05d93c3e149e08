"""What libraries got wrong is found: by the property that says so, and not in what is right."""

from collections.abc import Iterator
from typing import Any

import pytest

from headcheck.grader.ui.pytest_plugin.suite import PropertySuite, list_properties
from headcheck.properties import families
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.check import find_first_failure
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.property import Property, Verdict, check_in_order
from headcheck.properties.violations.violation import Status
from tests.library.real_bugs import (
    ROADS,
    ROOT,
    Bug,
    find_edited,
    list_bugs,
    list_faults,
    render_page,
)
from tests.submissions import execute, load_source

# What wrong answers do may make torch warn; that is not what they are accused of.
pytestmark = pytest.mark.filterwarnings("ignore")
BUGS = tuple(bug for bug in list_bugs() if bug.road != "compiled")
"""those of compiled code take a compiler: see test_compiled.py"""


def list_required(prop: Property) -> Iterator[Property]:
    for each in prop.requires:
        yield from list_required(each)
        yield each


def find_failures_in_a_grade(source: str, contract: Contract, wanted: Property) -> set[str]:
    """The names of what fails of a property and all that it requires, on a grade's fixed cases."""
    before = {*list_required(wanted), wanted}
    cases = generate_case_set(contract)
    plan = {
        prop: prop.select_cases(contract, cases)
        for prop in families.select_for_contract(contract)
        if prop in before
    }
    harness = load_source(source, contract)

    def check(prop: Property, chosen: Any) -> Verdict:
        return find_first_failure(prop, harness, chosen)

    failing = (Status.FAILED, Status.CRASHED)
    verdicts = check_in_order(plan, harness, check)
    return {each.property.name for each in verdicts if each.status in failing}


def find_failures_of_the_plugin(source: str, contract: Contract, wanted: Property) -> set[str]:
    """The same by the pytest plugin, whose outcome of a property asks for what it requires."""
    suite = PropertySuite(execute(source), contract)
    before = {*list_required(wanted), wanted}
    return {
        variant.prop.name
        for variant in suite.list_variants(["cpu"])
        if variant.prop in before and suite.get_outcome(variant).failure
    }


@pytest.fixture(autouse=True)
def unshrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is asked, not on which case: to search for the smallest takes most of the time."""
    shrink = "headcheck.grader.ui.pytest_plugin.suite.shrink_failure"
    monkeypatch.setattr(shrink, lambda verdict, _, before: (verdict, before))


FINDERS = {"grade": find_failures_in_a_grade, "verify": find_failures_of_the_plugin}


@pytest.mark.sampled("bug", BUGS, BUGS[::4], ids=lambda bug: f"{bug.answer}-{bug.property}")
def test_the_property_that_the_bug_breaks_accuses_it(bug: Bug) -> None:
    edited = find_edited(bug.answer)
    named = {prop.name: prop for prop in list_properties(edited.contract)}
    find, wanted = FINDERS[bug.road], named[bug.property]
    assert bug.property in find(edited.wrong, edited.contract, wanted)
    assert find(edited.right, edited.contract, wanted) == set()


BASES = {find_edited(name).base: name for name in list_faults()}


@pytest.mark.whole
@pytest.mark.parametrize("name", BASES.values(), ids=BASES)
def test_what_is_edited_keeps_every_property(name: str) -> None:
    edited = find_edited(name)
    suite = PropertySuite(execute(edited.right), edited.contract)
    outcomes = ((each, suite.get_outcome(each)) for each in suite.list_variants(["cpu"]))
    assert {each.name for each, outcome in outcomes if outcome.failure} == set()


def test_bugs_and_answers_belong_together() -> None:
    bugs = list_bugs()
    assert {bug.road for bug in bugs} == set(ROADS)
    assert {bug.answer for bug in bugs if "/" not in bug.answer} == set(list_faults())
    assert len({(bug.answer, bug.property) for bug in bugs}) == len(bugs)


def test_the_page_is_made_from_the_table() -> None:
    assert (ROOT / "docs" / "real-bugs.md").read_text(encoding="utf-8") == render_page()
