"""Check the statement's form of results and weights on answers judged in their own terms.

An answer that is judged in its own terms may return other results. But the statement says how many
results there are, in which order, and how wide, and callers rely on this. So the property about the
form of results is checked again by the statement. The answer keeps its initial weights in this
check, since the statement's weights might not fit its layers. If the check fails, the other
properties are checked nevertheless.

In the answer's own terms, the names of weights do not matter, but their tensors do: one layer
instead of three is more than a different name, and a transposed matrix cannot load the statement's
weights. So the property about weights fails if a tensor of the statement has no counterpart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headcheck.grader.grading.live_checker import LiveChecker
from headcheck.properties.cases.case_set import PLAINEST
from headcheck.properties.contracts.case_description import describe_case
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.families.contract import (
    the_output_has_the_right_shape,
    the_weights_are_where_the_exercise_says,
)
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.property import Property, Verdict
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, Violation, ViolationKind


def check_stated_form(
    live: LiveChecker,
    asked: Contract,
    plan: Mapping[Property, Sequence[Case]],
    verdicts: Sequence[Verdict],
) -> list[Verdict]:
    """Return the verdicts, in which the form of results and weights is judged by the statement."""
    verdicts = [_check_weights(v, live.harness.contract, asked) for v in verdicts]
    return _check_results(live, asked, plan, verdicts)


def describe_other_weights(own: Contract, asked: Contract) -> list[tuple[str, str]]:
    """Return pairs of tensors: those in the statement, and those that the answer has instead."""
    case = asked.fit(PLAINEST)
    kept, wanted = (_list_forms(each, case) for each in (own, asked))
    paths = {name: m.path for m in own.mappings if not m.is_bias for name in m.holds}
    return [
        (text, _name_others(holds, paths)) if holds not in kept else (text, kept[holds][1])
        for holds, (form, text) in wanted.items()
        if holds not in kept or kept[holds][0] != form
    ]


def _name_others(holds: Sequence[str], paths: Mapping[str, str]) -> str:
    found = dict.fromkeys(paths[name] for name in holds if name in paths)
    names = ", ".join(f"`{path.format(head='<i>')}`" for path in found)
    return f"other tensors, such as {names}" if names else "nothing in its place"


def _list_forms(contract: Contract, case: Case) -> dict[tuple[str, ...], tuple[object, str]]:
    """Return the form of each weight tensor, also in words, by the tensor's contents."""
    shapes = contract.get_parameter_shapes(case)
    forms: dict[tuple[str, ...], tuple[object, str]] = {}
    for mapping in contract.mappings:
        per_head = "{head}" in mapping.path
        shape = shapes.get(mapping.path.format(head=0))
        if shape is not None and not mapping.is_bias:
            each = " for each head" if per_head else ""
            text = f"`{mapping.path.format(head='<i>')}` of shape {shape}{each}"
            forms[mapping.holds] = (per_head, shape), text
    return forms


def _check_weights(verdict: Verdict, own: Contract, asked: Contract) -> Verdict:
    """Return the verdict on the places of weights; it is a failure if the tensors differ."""
    claim = the_weights_are_where_the_exercise_says
    if verdict.property is not claim or verdict.status is not Status.PASSED:
        return verdict
    different = describe_other_weights(own, asked)
    if not different:
        return verdict
    expected, got = different[0]
    on = describe_case(asked, asked.fit(PLAINEST))
    violation = Violation(ViolationKind.CONSTRUCTION, expected, got)
    detailed = violation.with_details(claim.claim, on, claim.hint)
    return replace(verdict, status=Status.FAILED, violation=detailed, case_description=on)


def _check_results(
    live: LiveChecker,
    asked: Contract,
    plan: Mapping[Property, Sequence[Case]],
    verdicts: Sequence[Verdict],
) -> list[Verdict]:
    """Return the verdicts, in which the form of results is now judged by the statement."""
    own = live.harness.contract
    stated = state_results(own, asked)
    if stated == own:
        return list(verdicts)
    harness = Harness(live.harness.subject, asked, live.harness.clock)
    harness.contract = stated
    check = replace(the_output_has_the_right_shape, check=_check_as_built)
    found = LiveChecker(live.session, harness).check(check, plan[the_output_has_the_right_shape])
    if found.status is Status.PASSED:
        return list(verdicts)
    verdict = replace(found, property=the_output_has_the_right_shape)
    return [verdict if v.property is verdict.property else v for v in verdicts]


def state_results(own: Contract, asked: Contract) -> Contract:
    """Return the contract in an answer's own terms, but with the results of the statement.

    Arguments with the same names as in the statement keep the statement's meaning: for example, the
    width of one head is not the width of all heads.
    """
    call_form = replace(own.call_form, places=asked.call_form.places)
    stated = replace(own, returns=asked.returns, call_form=call_form)
    named, wanted = ({argument.name for argument in each.arguments} for each in (own, asked))
    if named != wanted:
        return stated
    return replace(stated, arguments=asked.arguments, square=asked.square)


def _check_as_built(context: LiveContext) -> None:
    options = CallOptions(memory=context.get_memory_layout(context.x))
    result = context.adapter.forward(context.x, context.mask, options)
    context.check_form(result, context.x)
