"""Run one property of trusted code on one case, from the line that a failing test printed."""

from collections.abc import Mapping
from typing import Any

from exercises import Exercise
from grader.grading import devices
from grader.sandbox.grader_side.subject import make_subject
from grader.ui.pytest_plugin.locate import DefinitionNotFound, locate, suggest
from grader.ui.pytest_plugin.messages import complete_verdict
from grader.ui.pytest_plugin.suite import no_case_is_refused
from properties.case import Case
from properties.cases.case_text import BadCase, format_case, parse_case
from properties.cases.case_transforms import transform_cases
from properties.check import find_first_failure
from properties.contract import Contract
from properties.harness.harness import Harness
from properties.property import Property, Verdict
from properties.size_rules import BadSizes, parse_sizes


class ReplayError(Exception):
    """What cannot be replayed; the message, one line, says why."""


def replay(text: str, name: str, exercise: Exercise, property_name: str, sizes: str) -> Verdict:
    """Return the verdict of a property on the case of this line. Raises ReplayError."""
    try:
        case = parse_case(text)
        contract = exercise.contract.with_sizes(parse_sizes(sizes)) if sizes else exercise.contract
        prop = _find_property(exercise, property_name)
        _ensure_allowed(contract, prop, case)
        namespace = load_namespace(name, contract)
    except (BadCase, BadSizes, DefinitionNotFound) as error:
        raise ReplayError(str(error)) from error
    harness = Harness(make_subject(namespace), contract)
    return complete_verdict(find_first_failure(prop, harness, [case]), contract)


def load_namespace(name: str, contract: Contract) -> Mapping[str, Any]:
    """Return the namespace in which a definition has the name that the contract looks for.

    Raises DefinitionNotFound.
    """
    module, definition = locate(name)
    return {**vars(module), contract.name: definition}


def _find_property(exercise: Exercise, name: str) -> Property:
    known = {prop.name: prop for prop in (*exercise.properties, no_case_is_refused)}
    if name not in known:
        hint = suggest(name, known)
        raise ReplayError(f"{exercise.slug} has no property `{name}`{hint}")
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
