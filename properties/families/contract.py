"""The module has the form that the exercise requires; all other properties depend on this."""

from collections.abc import Mapping
from dataclasses import replace

from headcheck.properties import comparison
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import (
    CONSTANT,
    Argument,
    Capability,
    Contract,
    Entry,
    make_config,
)
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.families.argument_changes import set_width
from headcheck.properties.harness.call_sizes import add_case
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.given_class import assert_given_class_fits, list_some
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import ModuleAdapter, build_module, construct
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions, TensorInfo, Value
from headcheck.properties.terms.case import Case, MaskForm
from headcheck.properties.terms.peculiarity import (
    AXIS_OF_ONE,
    BIASES,
    SHORTER_THAN_CONTEXT,
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

family_property = PropertyFamily(PropertyGroup.CONTRACT)
values = PropertyFamily(PropertyGroup.VALUES)
C = Capability
INDIVISIBLE = ((7, 3), (6, 4), (10, 4), (9, 6), (2, 4), (8, 3))
"""widths with numbers of heads that do not divide them, some with common divisors and some without
"""
WHERE_WEIGHTS_ARE = "print its parameters and their shapes; compare with the statement"
REGISTERED_HINT = "parameters are nn.Parameters in `self`, or in its modules"
NAN_HINT = "at which step do ∞ or NaN enter the result?"
AXIS_HINT = "an axis of length one is an axis like any other, and has to stay"
CALLED_WIDTH = 64
"""Modules wider than this are built with their defaults but not called, because they have too many
weights.
"""


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
    hint="qkv_bias decides for queries, keys and values, for all three alike",
)
def the_biases_follow_the_option(context: LiveContext) -> None:
    """Queries, keys and values have a bias only if qkv_bias is True, which is not the default."""
    mapped = [m.path.format(head=0) for m in context.contract.mappings if m.is_bias]
    for bias in (False, True):
        case = replace(context.case, bias=bias)
        # What is not registered is found, too: another claim is about that.
        there = construct(context.harness.subject, context.contract, case).holder.read(mapped)
        for path in mapped:
            _assert_bias_presence(path in there, bias, path)
    for mapping in _list_missing(context, replace(context.case, bias=True)):
        if not {"b_q", "b_k", "b_v"}.isdisjoint(mapping.holds):
            _assert_bias_presence(_adds_biases(context), True, mapping.path.format(head=0))


def _adds_biases(context: LiveContext) -> bool:
    """Return whether a class that was recognised without biases has more tensors with them."""
    subject, asked = context.harness.subject, context.harness.requested_contract
    try:
        built = [construct(subject, asked, replace(context.case, bias=b)) for b in (False, True)]
    except SubmissionFailed:
        return False
    without, more = (len(a.holder.describe_tensors(unregistered=True)) for a in built)
    return more > without


def _assert_bias_presence(present: bool, required: bool, path: str) -> None:
    if present is not required:
        asked = "with qkv_bias=True" if required else "without qkv_bias=True"
        expected = f"{'a' if required else 'no'} bias `{path}` {asked}"
        got = "a bias" if present else "no bias"
        reason = Reason.BIAS_UNASKED if present else Reason.BIAS_ABSENT
        raise Violation(ViolationKind.CONSTRUCTION, expected, got, reason=reason)


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
        deliberate = refusal.message.startswith(("AssertionError", "ValueError"))
        if deliberate and refusal.status is Status.CRASHED:
            return
        expected = f"an AssertionError or a ValueError from the constructor: {why}"
        raise Violation(ViolationKind.CONSTRUCTION, expected, str(refusal)) from None
    given = " ".join(f"{n}={v}" for n, v in arguments.items() if isinstance(v, int | float))
    expected, got = f"a refusal: {why}", "a module was built"
    reason = Reason.NOT_REFUSED
    raise Violation(ViolationKind.CONSTRUCTION, expected, got, case=given, reason=reason)


@family_property(
    C.STATED,
    C.INITIALISED,
    after=BUILT,
    limit=1,
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


@family_property(
    C.STATED,
    C.INITIALISED,
    after=BUILT,
    limit=1,
    on=at_least(tokens=3),
    hint="the statement's signature has the defaults",
)
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


@family_property(
    after=FORM,
    dtypes=("float64", "float32"),
    hint="look for casts, and at the dtypes of new tensors",
)
def the_dtype_is_kept(context: CaseContext) -> None:
    """The output has the dtype of the input."""
    for name, dtype in zip(context.output_names, context.call().dtypes, strict=True):
        if dtype != context.case.dtype:
            narrowed = (context.case.dtype, dtype) == ("float64", "float32")
            reason = Reason.BECAME_FLOAT32 if narrowed else ""
            raise Violation(ViolationKind.DTYPE, context.case.dtype, dtype, name, reason=reason)


@family_property(after=FORM, hint="a new tensor is on the CPU unless it is told a device")
def the_device_is_kept(context: CaseContext) -> None:
    """The output is on the device of the input."""
    for name, device in zip(context.output_names, context.call().devices, strict=True):
        if device.split(":")[0] != context.case.device.split(":")[0]:
            raise Violation(ViolationKind.DEVICE, context.case.device, device, name)


@family_property(after=FORM, hint=NAN_HINT)
def the_output_is_finite(context: CaseContext) -> None:
    """Every number of the output is finite."""
    for output, name in zip(context.answer, context.output_names, strict=True):
        comparison.assert_finite(output, name)


@values(
    C.CONTEXT,
    after=FORM,
    limit=1,
    on=at_least(tokens=6),
    choose=select_plainest,
    about=SHORTER_THAN_CONTEXT,
    hint="one module gets inputs of many lengths; all its tensors must fit",
)
def every_length_up_to_the_context_works(context: CaseContext) -> None:
    """One module takes any number of tokens, from 1 to the longest length."""
    longest = context.case.context_length
    lengths = {1, 2, longest // 2, longest - 1, longest} if longest <= 16 else {1, longest}
    # The longest first: a mask that is cached for a single token would broadcast to all others.
    for tokens in sorted(lengths - {0}, reverse=True):
        x = context.x.repeat(1, 1 + longest // context.case.tokens, 1)[:2, :tokens]
        comparison.assert_finite(context.run(x)[0], hint=NAN_HINT)


@family_property(C.FUSED, after=FORM, limit=1)
def it_goes_through_the_fused_attention(context: LiveContext) -> None:
    """It computes attention with F.scaled_dot_product_attention."""
    for training in (False, True):
        options = CallOptions(watched=True, training=training)
        if "scaled_dot_product_attention" not in context.call_module(options=options).called:
            expected = "a call of F.scaled_dot_product_attention in forward"
            got = f"none was made in {'training' if training else 'evaluation'}"
            reason = "" if training else Reason.FUSED_NOT_CALLED
            raise Violation(ViolationKind.TYPE, expected, got, reason=reason)


@family_property(
    C.STATED,
    C.TAKES_MASK,
    after=FORM,
    limit=2,
    on=with_values(mask_form=MaskForm.NONE),
    hint="the mask is optional: forward must also work without one",
    redundant_because="other claims leave the mask out too; this one says so to whoever demands it",
)
def the_mask_may_be_left_out(context: LiveContext) -> None:
    """forward(x) works without a mask."""
    asked = context.harness.requested_contract.call_form.mask
    if context.contract.call_form.mask.required and not asked.required:
        expected, got = "a call without a mask", "it demands a mask"
        raise Violation(ViolationKind.TYPE, expected, got, reason=Reason.MASK_DEMANDED)
    context.run(memory="contiguous")


def _construct_untouched(context: LiveContext) -> ModuleAdapter:
    """Build a module that is never called: the effects of calls have properties of their own."""
    return construct(context.harness.subject, context.contract, context.case, context.case.seed)


def _list_parameters(context: LiveContext, module: bool = False) -> dict[str, TensorInfo]:
    built = context.compute_once(_construct_untouched)
    tensors = (built.module if module else built.holder).describe_tensors()
    return {name: info for name, info in tensors.items() if info.kind == "parameter"}
