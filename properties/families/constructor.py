"""The constructor takes the arguments of the exercise, and refuses those that make no sense."""

import functools
from collections.abc import Mapping
from dataclasses import replace

from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.argument import make_config
from headcheck.properties.contracts.contract import CONSTANT, Argument, Contract
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import BUILT, it_can_be_constructed
from headcheck.properties.harness.call_sizes import add_case
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import ModuleAdapter, build_module
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions, Value
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import (
    Reason,
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)

USUAL_WIDTH = "n_embd"
"""the name of the width in a config without fields of its own"""


def set_width(
    contract: Contract, arguments: Mapping[str, Value], width: int
) -> dict[str, Value] | None:
    """Return arguments with another width, whatever its name is, also if it is in a config.

    None if the width is not an argument: then it follows from others, and the heads always divide
    it.
    """
    changed = {
        argument.name: width
        if is_width(argument, contract)
        else _set_field(argument, contract, arguments[argument.name], width)
        for argument in contract.arguments
        if argument.name in arguments
    }
    return None if changed == dict(arguments) else changed


def is_width(argument: Argument, contract: Contract) -> bool:
    """Return whether an argument takes the width of all heads."""
    return argument.quantity in (("d_out", "d_in") if contract.square else ("d_out",))


def _set_field(argument: Argument, contract: Contract, given: Value, width: int) -> Value:
    if argument.quantity != "config" or not isinstance(given, Mapping):
        return given
    names = [each.name for each in argument.fields if is_width(each, contract)]
    names += [USUAL_WIDTH] * (not argument.fields)
    return {**given, **dict.fromkeys(names, width)}


family_property = PropertyFamily(PropertyGroup.CONTRACT)
INDIVISIBLE = ((7, 3), (6, 4), (10, 4), (9, 6), (2, 4), (8, 3))
"""widths with numbers of heads that do not divide them, some with common divisors and some without
"""
CALLED_WIDTH = 64
"""Modules wider than this are built with their defaults but not called, because they have too many
weights.
"""


@family_property(
    C.DIVISIBLE,
    after=(it_can_be_constructed,),
    limit=1,
    on=with_values(heads=3),
    hint="refuse every number that leaves a remainder, not only these",
)
def heads_that_do_not_divide_the_width_are_refused(context: LiveContext) -> None:
    """The constructor refuses a width that the number of heads does not divide."""
    for width, heads in INDIVISIBLE:
        case = replace(context.case, heads=heads)
        arguments = set_width(context.contract, context.contract.build_arguments(case), width)
        if arguments is not None:
            assert_refused(context, arguments, f"{width} is not divisible by {heads} heads")


def assert_refused(context: LiveContext, arguments: Mapping[str, Value], why: str) -> None:
    """Raise Violation unless the constructor refuses these arguments."""
    try:
        context.harness.subject.construct(context.contract.name, arguments, None)
    except SubmissionFailed as refusal:
        if refusal.status is not Status.CRASHED:
            raise  # a limit that was used up says nothing about these arguments
        if refusal.message.startswith(("AssertionError", "ValueError")):
            return
        expected = f"an AssertionError or a ValueError from the constructor: {why}"
        raise Violation(ViolationKind.CONSTRUCTION, expected, str(refusal)) from None
    given = " ".join(f"{n}={v}" for n, v in arguments.items() if isinstance(v, int | float))
    expected, got = f"a refusal: {why}", "a module was built"
    reason = Reason.NOT_REFUSED
    raise Violation(ViolationKind.CONSTRUCTION, expected, got, case=given, reason=reason)


stated_property = functools.partial(family_property, C.STATED, C.INITIALISED, after=BUILT, limit=1)


@stated_property(
    on=compose(at_least(tokens=3), with_values(bias=True, dropout=0.5)),
    hint="keep the statement's order, with no argument after a *",
)
def its_arguments_may_be_given_by_position(context: LiveContext) -> None:
    """Its arguments can be given by position, in the order of the statement, or by name."""
    if not _answers_as_usual(context):
        return
    contract, case = context.contract, context.case
    arguments = _get_stated(context).build_arguments(case)
    subject = context.harness.subject
    built = build_module(subject, contract, case, arguments, given="by position")
    adapter = ModuleAdapter(contract, case, built, built, context.harness.subject)
    context.assert_answer_unchanged(context.run_module(options=CallOptions(), adapter=adapter))


def _answers_as_usual(context: LiveContext) -> bool:
    """Whether a module that is built as usual answers; if not, another way is not to blame."""
    try:
        context.answer  # noqa: B018  # computed once, and kept
    except (Violation, SubmissionFailed):
        return False
    return True


def _get_stated(context: LiveContext) -> Contract:
    """Return the module's own contract, or the statement's if that lacks some of its arguments."""
    stated = context.harness.requested_contract
    names = {argument.name for argument in stated.arguments}
    known = all(argument.name in names for argument in context.contract.arguments)
    return context.contract if known else stated


@stated_property(on=at_least(tokens=3), hint="the statement's signature has the defaults")
def arguments_left_out_have_their_defaults(context: LiveContext) -> None:
    """An argument that is left out has the default of the statement."""
    for argument in context.contract.arguments:
        if argument.default is not None and argument.quantity != CONSTANT:
            _assert_default_taken(context, argument)


def _assert_default_taken(context: LiveContext, argument: Argument) -> None:
    """Raise Violation unless omitting an argument has the same result as passing its default."""
    contract, subject = context.contract, context.harness.subject
    case = contract.fit(_set_quantity(context.case, argument))
    if argument.get_value(case) != argument.default:
        return  # the sizes that an implementation has do not allow it
    given = {n: v for n, v in contract.build_arguments(case).items() if n != argument.name}
    built = build_module(subject, contract, case, given)
    shapes = contract.get_parameter_shapes(case)
    found = built.read(list(shapes))  # registered or not: another claim is about that
    for path, shape in shapes.items():
        if (got := tuple(found[path].shape) if path in found else "none") != shape:
            expected = f"`{path}` of shape {shape} without `{argument.name}`"
            raise Violation(ViolationKind.CONSTRUCTION, expected, f"shape {got}")
    other = context.harness.create_context(case)
    if case.d_out <= CALLED_WIDTH and _answers_as_usual(other):
        adapter = ModuleAdapter(contract, case, built, built, subject)
        with add_case(contract, case):
            answer = other.run_module(options=CallOptions(), adapter=adapter)
            other.assert_answer_unchanged(answer)


def _set_quantity(case: Case, argument: Argument) -> Case:
    """Return a case in which an argument has its default."""
    if argument.quantity == "d_out":
        assert isinstance(argument.default, int), "a width is a number"
        return replace(case, heads=2, head_dim=argument.default // 2)
    return replace(case, **{argument.quantity: argument.default})  # type: ignore[arg-type]  # as the field


@family_property(
    C.CONFIG,
    after=(it_can_be_constructed,),
    limit=2,
    hint="all are attributes: n_embd, n_head, block_size, and nothing else",
)
def the_config_holds_all_it_needs(context: LiveContext) -> None:
    """A config that has the named fields, as its own or in its class, is enough to build it."""
    case = context.case
    arguments = {
        a.name: a.get_value(case) if a.fields else make_config(case)
        for a in context.contract.arguments
    }
    for given in ("by name", "by class"):
        context.harness.subject.construct(context.contract.name, arguments, None, given=given)
