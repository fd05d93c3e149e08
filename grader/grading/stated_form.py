"""What a statement says of results, asked of an answer that is judged in its own terms.

In its own terms an answer returns what it returns. The statement says how many results there are,
in which order, and how wide; whoever calls the answer relies on that. So this one claim is checked
once more, as the statement has it, on the answer as it is built: where its layers have other shapes
than the statement's, weights of the statement's would not fit. Nothing else is left out for its
sake.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from grader.grading.live_checker import LiveChecker
from properties.case import Case
from properties.contract import Contract
from properties.families.contract import the_output_has_the_right_shape
from properties.harness.harness import Harness, LiveContext
from properties.property import Property, Verdict
from properties.subject import CallOptions
from properties.violation import Status


def check_stated_form(
    live: LiveChecker,
    asked: Contract,
    plan: Mapping[Property, Sequence[Case]],
    verdicts: Sequence[Verdict],
) -> list[Verdict]:
    """Return verdicts, of which the one on the form of results is the statement's."""
    own = live.harness.contract
    stated = state_results(own, asked)
    if stated == own:
        return list(verdicts)
    harness = Harness(live.harness.subject, asked)
    harness.contract = stated
    check = replace(the_output_has_the_right_shape, check=_check_as_built)
    found = LiveChecker(live.session, harness).check(check, plan[the_output_has_the_right_shape])
    if found.status is Status.PASSED:
        return list(verdicts)
    verdict = replace(found, property=the_output_has_the_right_shape)
    return [verdict if v.property is verdict.property else v for v in verdicts]


def state_results(own: Contract, asked: Contract) -> Contract:
    """Return the terms of an answer, but for its results, which are the statement's.

    What is built as in the statement means that, too: a width of heads is no width of all of them.
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
