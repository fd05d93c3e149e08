"""The module has the form that the exercise asks for. Everything else rests on this."""

from dataclasses import fields, replace

import torch

from properties import comparison
from properties.case import MaskForm
from properties.cases.case_transforms import at_least, with_values
from properties.contract import Capability, make_config
from properties.harness.case_context import CaseContext
from properties.harness.harness import LiveContext
from properties.harness.module_adapter import ModuleAdapter, construct
from properties.property import PropertyFamily, PropertyGroup
from properties.subject import CallOptions, TensorInfo
from properties.violation import Status, SubmissionFailed, Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.CONTRACT)
C = Capability


@family_property(
    limit=1,
    on=at_least(tokens=3),
    hint="compare the names and the order of the arguments with the statement, and what it returns",
)
def it_can_be_constructed(context: LiveContext) -> None:
    """It can be constructed with the arguments that the exercise names."""
    assert context.adapter is not None


@family_property(
    C.PROJECTED,
    C.MODULE,
    after=(it_can_be_constructed,),
    limit=2,
    on=at_least(tokens=3),
    hint="the statement lists every weight with its name and shape",
)
def the_weights_are_where_the_exercise_says(context: LiveContext) -> None:
    """Its weights have the names and shapes that the exercise asks for."""
    wanted = context.contract.get_parameter_shapes(context.case)
    plain = context.contract.get_parameter_shapes(replace(context.case, bias=False))
    found = context.adapter.holder.read(list(wanted))
    for path, shape in wanted.items():
        if path not in found:
            has = (
                ", ".join(f"{n} {i.shape}" for n, i in _list_parameters(context).items()) or "none"
            )
            asked = "" if path in plain else " with qkv_bias=True"
            expected = f"a weight `{path}` of shape {shape}{asked}"
            raise Violation(
                ViolationKind.CONSTRUCTION, expected, f"there is none; its parameters: {has}"
            )
        comparison.assert_shape(found[path], shape, path)


BUILT = (it_can_be_constructed, the_weights_are_where_the_exercise_says)


@family_property(
    after=BUILT, hint="print the shape after every step and compare it with the statement"
)
def the_output_has_the_right_shape(context: CaseContext) -> None:
    """The output has the shape that the statement draws."""
    context.call()


FORM = (*BUILT, the_output_has_the_right_shape)


@family_property(
    C.PROJECTED,
    C.MODULE,
    after=BUILT,
    limit=1,
    on=at_least(tokens=3),
    hint="wrap it in nn.Parameter, or let an nn.Linear or nn.ModuleList in `self` hold it",
)
def the_weights_are_registered_and_trainable(context: LiveContext) -> None:
    """Every weight is a registered parameter, so that an optimizer trains it."""
    registered = _list_parameters(context)
    for path in context.contract.get_parameter_shapes(context.case):
        if path not in registered:
            expected = f"`{path}` among the module's parameters"
            raise Violation(
                ViolationKind.CONSTRUCTION, expected, "it is not: no optimizer will see it"
            )
        if not registered[path].trainable:
            expected = f"`{path}` with requires_grad=True"
            raise Violation(
                ViolationKind.CONSTRUCTION, expected, "requires_grad=False: it never changes"
            )


@family_property(
    C.PROJECTED,
    C.MODULE,
    after=BUILT,
    limit=1,
    on=at_least(tokens=3),
    hint="a mask or a table is a buffer",
)
def there_are_no_other_parameters(context: LiveContext) -> None:
    """It has no trainable parameters besides those asked for."""
    asked = context.contract.get_parameter_shapes(context.case)
    extra = [name for name in _list_parameters(context, module=True) if name not in asked]
    if extra and context.contract.transfer is None:
        listed = ", ".join(f"`{name}`" for name in extra)
        raise Violation(ViolationKind.CONSTRUCTION, f"the {len(asked)} asked for", f"also {listed}")


@family_property(
    C.BIAS_OPTION, C.MODULE, after=BUILT, limit=1, hint="pass bias=qkv_bias to all three layers"
)
def the_biases_follow_the_option(context: LiveContext) -> None:
    """Queries, keys and values have a bias exactly when qkv_bias asks for it; by default not."""
    for asked in (False, True):
        case = replace(context.case, bias=asked)
        module = construct(context.harness.subject, context.contract, case).holder
        for slot in context.contract.mappings:
            if slot.is_bias:
                path = slot.path.format(head=0)
                _assert_bias_presence(path in module.describe_tensors(), asked, path)


def _assert_bias_presence(present: bool, asked: bool, path: str) -> None:
    if present is not asked:
        says = {True: "a bias", False: "no bias"}
        expected = f"{says[asked]} `{path}` with qkv_bias={asked}"
        raise Violation(ViolationKind.CONSTRUCTION, expected, says[present])


@family_property(
    C.DIVISIBLE,
    after=(it_can_be_constructed,),
    limit=1,
    on=with_values(heads=3),
    hint="assert d_out % num_heads == 0",
)
def heads_that_do_not_divide_the_width_are_refused(context: LiveContext) -> None:
    """A width that the heads do not divide is refused at construction."""
    arguments = context.contract.build_arguments(context.case)
    for name in ("d_out", "n_embd"):
        if name in arguments:
            arguments[name] = context.case.d_out + 1
    try:
        context.harness.subject.construct(context.contract.name, arguments, None)
    except SubmissionFailed as refusal:
        if refusal.status is Status.CRASHED and refusal.message.startswith(
            ("AssertionError", "ValueError")
        ):
            return
        expected = "an AssertionError or a ValueError from the constructor"
        raise Violation(ViolationKind.CONSTRUCTION, expected, str(refusal)) from None
    width, heads = context.case.d_out + 1, context.case.heads
    expected = f"a refusal: {width} is not divisible by {heads} heads"
    raise Violation(ViolationKind.CONSTRUCTION, expected, "a module was built")


@family_property(
    C.CONFIG,
    after=(it_can_be_constructed,),
    limit=2,
    hint="the config has n_embd, n_head and block_size, and nothing else",
)
def the_config_holds_all_it_needs(context: LiveContext) -> None:
    """It can be built from a config that has only what the exercise names."""
    arguments = {a.name: make_config(context.case) for a in context.contract.arguments}
    context.harness.subject.construct(context.contract.name, arguments, None)


@family_property(after=FORM, dtypes=("float64", "float32"), hint="build new tensors with x.dtype")
def the_dtype_is_kept(context: CaseContext) -> None:
    """The output has the dtype of the input."""
    for name, dtype in zip(context.output_names, context.call().dtypes, strict=True):
        if dtype != context.case.dtype:
            raise Violation(ViolationKind.DTYPE, context.case.dtype, dtype, name)


@family_property(after=FORM, hint="build new tensors with device=x.device")
def the_device_is_kept(context: CaseContext) -> None:
    """The output is on the device of the input."""
    for name, device in zip(context.output_names, context.call().devices, strict=True):
        if device.split(":")[0] != context.case.device.split(":")[0]:
            raise Violation(ViolationKind.DEVICE, context.case.device, device, name)


@family_property(
    after=FORM, hint="does an exponential overflow, or has a row of scores nothing but -inf?"
)
def the_output_is_finite(context: CaseContext) -> None:
    """Every number of the output is finite."""
    for output, name in zip(context.answer, context.output_names, strict=True):
        comparison.assert_finite(output, name)


@family_property(
    C.CONTEXT,
    after=FORM,
    limit=1,
    on=at_least(tokens=6),
    hint="cut the mask to the number of tokens: mask[:num_tokens, :num_tokens]",
)
def every_length_up_to_the_context_works(context: CaseContext) -> None:
    """One module takes any number of tokens from 1 to context_length."""
    longest = context.case.context_length
    lengths = {1, 2, longest // 2, longest - 1, longest} if longest <= 16 else {1, longest}
    # The longest first: a mask that is kept from a single token would fit all others.
    for tokens in (longest, *sorted(lengths - {0, longest})):
        x = context.x.repeat(1, 1 + longest // context.case.tokens, 1)[:1, :tokens]
        comparison.assert_finite(context.run(x)[0])


@family_property(
    C.FUSED,
    after=FORM,
    limit=1,
    hint="call torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)",
)
def it_goes_through_the_fused_attention(context: LiveContext) -> None:
    """It computes attention with F.scaled_dot_product_attention."""
    called = context.call_module(options=CallOptions(watched=True)).called
    if "scaled_dot_product_attention" not in called:
        raise Violation(
            ViolationKind.TYPE,
            "a call of F.scaled_dot_product_attention in forward",
            "none was made",
        )


@family_property(
    C.TRANSFER,
    after=FORM,
    limit=2,
    hint="copy the numbers into v1's own parameters, e.g. with torch.no_grad() and copy_()",
)
def afterwards_the_two_modules_are_independent(context: LiveContext) -> None:
    """The target keeps trainable parameters of its own; the source is as it was."""
    adapter = construct(context.harness.subject, context.contract, context.case)
    before = adapter.holder.describe_tensors()
    context.run_module(adapter=adapter)
    _assert_target_parameters(adapter, context)
    after = adapter.holder.describe_tensors()
    for path, info in before.items():
        if after.get(path) != info:
            raise Violation(
                ViolationKind.CONSTRUCTION,
                f"v2's `{path}` as it was",
                _describe_difference(info, after.get(path)),
            )
    numbers = adapter.holder.read(list(before))
    for path, tensor in context.contract.to_stored(context.parameters, context.case):
        if path not in numbers or not torch.equal(numbers[path].double(), tensor.double()):
            raise Violation(ViolationKind.VALUE, f"v2's `{path}` as it was", "its numbers changed")
    adapter.holder.write({path: torch.zeros_like(t) for path, t in numbers.items()})
    answer = adapter.forward(context.x, None, CallOptions()).outputs
    context.assert_matches_oracle(tuple(t.double() for t in answer), context.expected)


def _assert_target_parameters(adapter: ModuleAdapter, context: LiveContext) -> None:
    registered = adapter.module.describe_tensors()
    for path, shape in adapter.contract.callee.get_parameter_shapes(context.case).items():
        if path not in registered or not registered[path].trainable:
            got = "it is not" if path not in registered else "requires_grad=False"
            raise Violation(ViolationKind.CONSTRUCTION, f"v1's `{path}` a trainable parameter", got)
        if registered[path].shape != shape:
            got = f"shape {registered[path].shape}"
            raise Violation(ViolationKind.SHAPE, f"shape {shape}", got, f"v1's `{path}`")


def _describe_difference(before: TensorInfo, after: TensorInfo | None) -> str:
    if after is None:
        return "it is gone"
    changed = [f.name for f in fields(before) if getattr(before, f.name) != getattr(after, f.name)]
    return ", ".join(f"{name}={getattr(after, name)}" for name in changed)


@family_property(
    C.MASK,
    after=FORM,
    limit=2,
    on=with_values(mask_form=MaskForm.NONE),
    hint="mask=None",
    redundant_because="other claims leave the mask out too; this one says so to whoever demands it",
)
def the_mask_may_be_left_out(context: CaseContext) -> None:
    """forward(x) works without a mask."""
    context.run(memory="contiguous")


def _construct_untouched(context: LiveContext) -> ModuleAdapter:
    """An instance as its constructor left it: what calls do to one has claims of its own."""
    return construct(
        context.harness.subject, context.contract, context.case, seed=context.case.seed
    )


def _list_parameters(context: LiveContext, module: bool = False) -> dict[str, TensorInfo]:
    built = context.compute_once(_construct_untouched)
    found = (built.module if module else built.holder).describe_tensors()
    return {name: info for name, info in found.items() if info.kind == "parameter"}


ALL = (
    it_can_be_constructed,
    the_weights_are_where_the_exercise_says,
    the_output_has_the_right_shape,
    the_weights_are_registered_and_trainable,
    there_are_no_other_parameters,
    the_biases_follow_the_option,
    heads_that_do_not_divide_the_width_are_refused,
    the_config_holds_all_it_needs,
    the_dtype_is_kept,
    the_device_is_kept,
    the_output_is_finite,
    every_length_up_to_the_context_works,
    it_goes_through_the_fused_attention,
    afterwards_the_two_modules_are_independent,
    the_mask_may_be_left_out,
)
