"""Run one property of trusted code on one case, from the line that a failing test printed."""

from headcheck.grader import UserError
from headcheck.grader.grading import devices
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.grader.ui.pytest_plugin.locate import suggest
from headcheck.grader.ui.pytest_plugin.messages import (
    complete_verdict,
    describe_failure,
    name_contract,
)
from headcheck.grader.ui.pytest_plugin.suite import list_properties
from headcheck.grader.ui.pytest_plugin.target import load_target
from headcheck.grader.ui.pytest_plugin.target_settings import BadTarget, TargetSettings
from headcheck.properties.cases.case_text import BadCase, format_case, parse_case
from headcheck.properties.cases.case_transforms import transform_cases
from headcheck.properties.check import find_first_failure
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case


class ReplayError(UserError):
    """A case that cannot be replayed; the message, one line, says why."""


def replay(text: str, settings: TargetSettings, property_name: str) -> tuple[Verdict, str]:
    """Return a property's verdict on the case that `text` describes, and any failure's message.

    Raises ReplayError.
    """
    try:
        case = parse_case(text)
        target = load_target(settings)
    except (BadCase, BadTarget) as error:
        raise ReplayError(str(error)) from error
    prop = _find_property(target.contract, property_name)
    if prop.name in target.feedback.hidden:
        raise ReplayError(f"{prop.name} is not shown: the course file hides it")
    _ensure_allowed(target.contract, prop, case)
    harness = Harness(make_subject(target.namespace), target.contract)
    verdict = complete_verdict(find_first_failure(prop, harness, [case]), target.contract)
    told = describe_failure(verdict, target.feedback)
    return verdict, told if target.has_statement else name_contract(told)


def _find_property(contract: Contract, name: str) -> Property:
    known = {prop.name: prop for prop in list_properties(contract)}
    if name not in known:
        hint = suggest(name, known)
        raise ReplayError(f"{contract.name} has no property `{name}`{hint}")
    return known[name]


def _ensure_allowed(contract: Contract, prop: Property, case: Case) -> None:
    """Raise ReplayError unless the property can be checked on this case on this machine."""
    if not devices.is_known(case.device):
        raise ReplayError(f"`device={case.device}` is none of {devices.DEVICE_NAMES}")
    missing = devices.explain_unavailable(case.device) or devices.explain_missing_dtype(
        case.device, case.dtype
    )
    if missing:
        raise ReplayError(f"this case {missing}" if missing.startswith("needs") else missing)
    fitted = contract.fit(case)
    if fitted != case:
        raise ReplayError(f"{contract.name} has no such case; near it is {format_case(fitted)}")
    needed = transform_cases(contract, prop.transform, [case])
    if needed != (case,):
        near = f"; near it is {format_case(needed[0])}" if needed else ""
        raise ReplayError(f"{prop.name} is not checked on such a case{near}")
