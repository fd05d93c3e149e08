"""The module is built as the exercise requires; all other properties depend on this."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.contracts.contract import Entry
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import ModuleAdapter, construct
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions, TensorInfo
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.peculiarity import (
    AXIS_OF_ONE,
    BIASES,
    SINGLE_SEQUENCE,
    select_plainest,
)
from headcheck.properties.violations.violation import (
    Reason,
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)

BUILDER_HINT = "which argument decides how wide the output is, and is each in its place?"
MAX_LISTED = 8
"""the most parameters to list in a message about a missing one"""


def assert_given_class_fits(context: LiveContext, found: Mapping[str, tuple[int, ...]]) -> None:
    """Raise Violation if the output shows that a provided class was built with wrong sizes.

    Students do not write the weights of such a class, but choose its arguments.
    """
    if found == context.contract.get_parameter_shapes(context.case):
        return
    answer = context.adapter.forward(context.x, context.mask, CallOptions())
    for output, shape in zip(
        answer.outputs, context.compute_output_shapes(context.x), strict=False
    ):
        got = tuple(output.shape)
        if got != shape:
            raise Violation(
                ViolationKind.SHAPE,
                f"shape {shape}",
                f"shape {got}",
                "output",
                hint=BUILDER_HINT,
                reason=Reason.BUILT_OTHERWISE,
            )


def list_some(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"{', '.join(names[:MAX_LISTED])}{more}"


family_property = PropertyFamily(PropertyGroup.CONTRACT)
values = PropertyFamily(PropertyGroup.VALUES)
WHERE_WEIGHTS_ARE = "print its parameters and their shapes; compare with the statement"
REGISTERED_HINT = "parameters are nn.Parameters in `self`, or in its modules"
AXIS_HINT = "an axis of length one is an axis like any other, and has to stay"


PLAIN = compose(at_least(tokens=3), with_values(dtype="float32"))
"""cases in float32, torch's default: some code writes float32 down, and fails in other dtypes"""


@family_property(
    limit=1,
    on=PLAIN,
    choose=select_plainest,
    hint="compare arguments, their order and the results to the statement",
)
def it_can_be_constructed(context: LiveContext) -> None:
    """It can be constructed with the arguments that the exercise names."""
    assert context.adapter is not None


@family_property(
    C.PROJECTED,
    C.MODULE,
    after=(it_can_be_constructed,),
    limit=2,
    on=PLAIN,
    choose=select_plainest,
    hint=WHERE_WEIGHTS_ARE,
)
def the_weights_are_where_the_exercise_says(context: LiveContext) -> None:
    """Its weights have the names and shapes that the exercise asks for."""
    shapes = context.contract.get_parameter_shapes(context.case)
    tensors = context.adapter.holder.read(list(shapes))
    hint = ""
    if context.contract.entry is Entry.BUILDER:
        hint = "how many heads are asked for, and how wide is each?"
        assert_given_class_fits(context, {path: tuple(t.shape) for path, t in tensors.items()})
    for path, shape in shapes.items():
        if path not in tensors:
            listed = list_some([f"{n} {i.shape}" for n, i in _list_parameters(context).items()])
            expected = f"a weight `{path}` of shape {shape}"
            got = f"there is none; its parameters: {listed or 'none'}"
            reason = Reason.WEIGHT_ABSENT
            raise Violation(ViolationKind.CONSTRUCTION, expected, got, reason=reason)
        if (came := tuple(tensors[path].shape)) != shape:
            told = f"shape {shape}", f"shape {came}", path
            raise Violation(ViolationKind.SHAPE, *told, hint=hint, reason=Reason.STORED_SHAPE)


BUILT = (it_can_be_constructed, the_weights_are_where_the_exercise_says)


@family_property(
    after=BUILT,
    on=with_values(dtype="float32"),
    choose=select_plainest,
    hint="print the shape after every step and compare it with the statement",
    essential=True,
)
def the_output_has_the_right_shape(context: CaseContext) -> None:
    """The output has the shape that the statement draws."""
    context.call()


FORM = (*BUILT, the_output_has_the_right_shape)


@family_property(
    C.BATCH,
    after=FORM,
    on=with_values(batch=1),
    choose=select_plainest,
    about=SINGLE_SEQUENCE,
    hint=AXIS_HINT,
)
def a_batch_of_one_stays_a_batch(context: CaseContext) -> None:
    """A batch of one sequence gives a batch of one output."""
    context.call()


@family_property(
    after=FORM,
    on=lambda case: case if AXIS_OF_ONE.is_in(case) else replace(case, tokens=1, context_length=1),
    choose=select_plainest,
    about=AXIS_OF_ONE,
    hint=AXIS_HINT,
)
def an_axis_of_length_one_stays(context: CaseContext) -> None:
    """A single token, or a width of one, keeps its axis."""
    context.call()


@family_property(C.PROJECTED, C.MODULE, after=BUILT, limit=1, on=at_least(tokens=3))
def the_weights_are_registered_and_trainable(context: LiveContext) -> None:
    """Every weight is a registered parameter, so that an optimizer trains it."""
    registered = _list_parameters(context)
    for path in context.contract.get_parameter_shapes(context.case):
        if path not in registered:
            expected = f"`{path}` among the module's parameters"
            got = "it is not: no optimizer will see it"
            reason, hint = Reason.UNREGISTERED, REGISTERED_HINT
            raise Violation(ViolationKind.CONSTRUCTION, expected, got, hint=hint, reason=reason)
        if not registered[path].trainable:
            expected = f"`{path}` with requires_grad=True"
            got = "requires_grad=False: it never changes"
            raise Violation(ViolationKind.CONSTRUCTION, expected, got, reason=Reason.FROZEN)


@family_property(
    C.PROJECTED,
    C.MODULE,
    after=BUILT,
    limit=1,
    on=at_least(tokens=3),
    hint="only the weights that the statement names are parameters",
)
def there_are_no_other_parameters(context: LiveContext) -> None:
    """It has the trainable parameters that the exercise asks for, and no others."""
    shapes = context.contract.get_parameter_shapes(context.case)
    extra = [f"`{n}`" for n in _list_parameters(context, module=True) if n not in shapes]
    missing = _list_missing(context, context.case)
    if missing:
        kinds = (("weight", "bias")[m.holds[0].startswith("b_")] for m in missing)
        named = (f"a {k} `{m.path.format(head=0)}`" for k, m in zip(kinds, missing, strict=True))
        expected, got = f"{', '.join(named)}, as asked for", "none of these"
        biases = all(mapping.holds[0].startswith("b_") for mapping in missing)
        reason = Reason.BIASES_ABSENT if biases else Reason.WEIGHTS_ABSENT
        told = expected, got
        raise Violation(ViolationKind.CONSTRUCTION, *told, hint=WHERE_WEIGHTS_ARE, reason=reason)
    if extra and context.contract.transfer is None:
        expected, got = f"the {len(shapes)} asked for", f"also {', '.join(extra)}"
        reason = Reason.EXTRA_PARAMETERS
        raise Violation(ViolationKind.CONSTRUCTION, expected, got, reason=reason)


def _list_missing(context: LiveContext, case: Case) -> list[ParameterMapping]:
    """Return the parameters that the exercise asks for and this class lacks."""
    asked, own = context.harness.requested_contract, context.contract
    needed = (m for m in asked.mappings if asked.has_biases(case) or not m.is_bias)
    return [mapping for mapping in needed if not all(map(own.stores, mapping.holds))]


@values(
    C.BIAS_OPTION,
    C.MODULE,
    after=BUILT,
    limit=1,
    choose=select_plainest,
    about=BIASES,
    hint="one option decides for queries, keys and values alike",
)
def the_biases_follow_the_option(context: LiveContext) -> None:
    """Queries, keys and values have a bias only if an option, off by default, asks for it."""
    mapped = [m.path.format(head=0) for m in context.contract.mappings if m.is_bias]
    for bias in (False, True):
        case = replace(context.case, bias=bias)
        # What is not registered is found, too: another claim is about that.
        there = construct(context.harness.subject, context.contract, case).holder.read(mapped)
        for path in mapped:
            _assert_bias_presence(context, path in there, bias, path)
    for mapping in _list_missing(context, replace(context.case, bias=True)):
        if not {"b_q", "b_k", "b_v"}.isdisjoint(mapping.holds):
            path = mapping.path.format(head=0)
            _assert_bias_presence(context, _adds_biases(context), True, path)


def _adds_biases(context: LiveContext) -> bool:
    """Return whether a class that was recognised without biases has more tensors with them."""
    subject, asked = context.harness.subject, context.harness.requested_contract
    try:
        built = [construct(subject, asked, replace(context.case, bias=b)) for b in (False, True)]
    except SubmissionFailed as failure:
        if failure.status is not Status.CRASHED:
            raise
        return False
    without, more = (len(a.holder.describe_tensors(unregistered=True)) for a in built)
    return more > without


def _assert_bias_presence(context: LiveContext, present: bool, required: bool, path: str) -> None:
    if present is not required:
        named = (a.name for a in context.contract.arguments if a.quantity == "bias")
        option = next(named, "qkv_bias")
        asked = f"with {option}=True" if required else f"without {option}=True"
        expected = f"{'a' if required else 'no'} bias `{path}` {asked}"
        got = "a bias" if present else "no bias"
        reason = Reason.BIAS_UNASKED if present else Reason.BIAS_ABSENT
        raise Violation(ViolationKind.CONSTRUCTION, expected, got, reason=reason)


def _construct_untouched(context: LiveContext) -> ModuleAdapter:
    """Build a module that is never called: the effects of calls have properties of their own."""
    return construct(context.harness.subject, context.contract, context.case, context.case.seed)


def _list_parameters(context: LiveContext, module: bool = False) -> dict[str, TensorInfo]:
    built = context.compute_once(_construct_untouched)
    tensors = (built.module if module else built.holder).describe_tensors()
    return {name: info for name, info in tensors.items() if info.kind == "parameter"}
