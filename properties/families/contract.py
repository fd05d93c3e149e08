"""The module has the form that the exercise asks for. Everything else rests on this."""

from dataclasses import fields, replace

import torch

from properties import comparison
from properties.case import MaskForm
from properties.cases.case_transforms import at_least, with_values
from properties.contract import Capability, make_config
from properties.harness.harness import CaseContext
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
def it_can_be_constructed(trial: CaseContext) -> None:
    """It can be constructed with the arguments that the exercise names."""
    assert trial.adapter is not None


@family_property(
    C.PROJECTED,
    C.MODULE,
    after=(it_can_be_constructed,),
    limit=2,
    on=at_least(tokens=3),
    hint="the statement lists every weight with its name and shape",
)
def the_weights_are_where_the_exercise_says(trial: CaseContext) -> None:
    """Its weights have the names and shapes that the exercise asks for."""
    wanted = trial.contract.get_parameter_shapes(trial.case)
    plain = trial.contract.get_parameter_shapes(replace(trial.case, bias=False))
    found = trial.adapter.holder.read(list(wanted))
    for path, shape in wanted.items():
        if path not in found:
            has = ", ".join(f"{n} {i.shape}" for n, i in _list_parameters(trial).items()) or "none"
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
def the_output_has_the_right_shape(trial: CaseContext) -> None:
    """The output has the shape that the statement draws."""
    trial.call_module()


FORM = (*BUILT, the_output_has_the_right_shape)


@family_property(
    C.PROJECTED,
    C.MODULE,
    after=BUILT,
    limit=1,
    on=at_least(tokens=3),
    hint="wrap it in nn.Parameter, or let an nn.Linear or nn.ModuleList in `self` hold it",
)
def the_weights_are_registered_and_trainable(trial: CaseContext) -> None:
    """Every weight is a registered parameter, so that an optimizer trains it."""
    registered = _list_parameters(trial)
    for path in trial.contract.get_parameter_shapes(trial.case):
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
def there_are_no_other_parameters(trial: CaseContext) -> None:
    """It has no trainable parameters besides those asked for."""
    asked = trial.contract.get_parameter_shapes(trial.case)
    extra = [name for name in _list_parameters(trial, module=True) if name not in asked]
    if extra and trial.contract.transfer is None:
        listed = ", ".join(f"`{name}`" for name in extra)
        raise Violation(ViolationKind.CONSTRUCTION, f"the {len(asked)} asked for", f"also {listed}")


@family_property(
    C.BIAS_OPTION, C.MODULE, after=BUILT, limit=1, hint="pass bias=qkv_bias to all three layers"
)
def the_biases_follow_the_option(trial: CaseContext) -> None:
    """Queries, keys and values have a bias exactly when qkv_bias asks for it; by default not."""
    for asked in (False, True):
        case = replace(trial.case, bias=asked)
        module = construct(trial.harness.subject, trial.contract, case).holder
        for slot in trial.contract.mappings:
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
def heads_that_do_not_divide_the_width_are_refused(trial: CaseContext) -> None:
    """A width that the heads do not divide is refused at construction."""
    arguments = trial.contract.build_arguments(trial.case)
    for name in ("d_out", "n_embd"):
        if name in arguments:
            arguments[name] = trial.case.d_out + 1
    try:
        trial.harness.subject.construct(trial.contract.name, arguments, None)
    except SubmissionFailed as refusal:
        if refusal.status is Status.CRASHED and refusal.message.startswith(
            ("AssertionError", "ValueError")
        ):
            return
        expected = "an AssertionError or a ValueError from the constructor"
        raise Violation(ViolationKind.CONSTRUCTION, expected, str(refusal)) from None
    width, heads = trial.case.d_out + 1, trial.case.heads
    expected = f"a refusal: {width} is not divisible by {heads} heads"
    raise Violation(ViolationKind.CONSTRUCTION, expected, "a module was built")


@family_property(
    C.CONFIG,
    after=(it_can_be_constructed,),
    limit=2,
    hint="the config has n_embd, n_head and block_size, and nothing else",
)
def the_config_holds_all_it_needs(trial: CaseContext) -> None:
    """It can be built from a config that has only what the exercise names."""
    arguments = {a.name: make_config(trial.case) for a in trial.contract.arguments}
    trial.harness.subject.construct(trial.contract.name, arguments, None)


@family_property(after=FORM, dtypes=("float64", "float32"), hint="build new tensors with x.dtype")
def the_dtype_is_kept(trial: CaseContext) -> None:
    """The output has the dtype of the input."""
    for name, dtype in zip(trial.output_names, trial.call_module().dtypes, strict=True):
        if dtype != trial.case.dtype:
            raise Violation(ViolationKind.DTYPE, trial.case.dtype, dtype, name)


@family_property(after=FORM, hint="build new tensors with device=x.device")
def the_device_is_kept(trial: CaseContext) -> None:
    """The output is on the device of the input."""
    for name, device in zip(trial.output_names, trial.call_module().devices, strict=True):
        if device.split(":")[0] != trial.case.device.split(":")[0]:
            raise Violation(ViolationKind.DEVICE, trial.case.device, device, name)


@family_property(
    after=FORM, hint="does an exponential overflow, or has a row of scores nothing but -inf?"
)
def the_output_is_finite(trial: CaseContext) -> None:
    """Every number of the output is finite."""
    for output, name in zip(trial.answer, trial.output_names, strict=True):
        comparison.assert_finite(output, name)


@family_property(
    C.CONTEXT,
    after=FORM,
    limit=1,
    on=at_least(tokens=6),
    hint="cut the mask to the number of tokens: mask[:num_tokens, :num_tokens]",
)
def every_length_up_to_the_context_works(trial: CaseContext) -> None:
    """One module takes any number of tokens from 1 to context_length."""
    longest = trial.case.context_length
    lengths = {1, 2, longest // 2, longest - 1, longest} if longest <= 16 else {1, longest}
    # The longest first: a mask that is kept from a single token would fit all others.
    for tokens in (longest, *sorted(lengths - {0, longest})):
        x = trial.x.repeat(1, 1 + longest // trial.case.tokens, 1)[:1, :tokens]
        comparison.assert_finite(trial.run(x, how=CallOptions())[0])


@family_property(
    C.FUSED,
    after=FORM,
    limit=1,
    hint="call torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)",
)
def it_goes_through_the_fused_attention(trial: CaseContext) -> None:
    """It computes attention with F.scaled_dot_product_attention."""
    called = trial.call_module(how=CallOptions(watched=True)).called
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
def afterwards_the_two_modules_are_independent(trial: CaseContext) -> None:
    """The target keeps trainable parameters of its own; the source is as it was."""
    made = construct(trial.harness.subject, trial.contract, trial.case)
    before = made.holder.describe_tensors()
    trial.run(instance=made)
    _assert_target_parameters(made, trial)
    after = made.holder.describe_tensors()
    for path, info in before.items():
        if after.get(path) != info:
            raise Violation(
                ViolationKind.CONSTRUCTION,
                f"v2's `{path}` as it was",
                _describe_difference(info, after.get(path)),
            )
    numbers = made.holder.read(list(before))
    for path, tensor in trial.contract.to_stored(trial.parameters, trial.case):
        if path not in numbers or not torch.equal(numbers[path].double(), tensor.double()):
            raise Violation(ViolationKind.VALUE, f"v2's `{path}` as it was", "its numbers changed")
    made.holder.write({path: torch.zeros_like(t) for path, t in numbers.items()})
    answer = made.forward(trial.x, None, CallOptions()).outputs
    trial.assert_matches_oracle(tuple(t.double() for t in answer), trial.expected)


def _assert_target_parameters(made: ModuleAdapter, trial: CaseContext) -> None:
    registered = made.module.describe_tensors()
    for path, shape in made.contract.callee.get_parameter_shapes(trial.case).items():
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
    echo="other claims leave the mask out too; this one says so to whoever demands it",
)
def the_mask_may_be_left_out(trial: CaseContext) -> None:
    """forward(x) works without a mask."""
    trial.run(how=CallOptions())


def _construct_untouched(trial: CaseContext) -> ModuleAdapter:
    """An instance as its constructor left it: what calls do to one has claims of its own."""
    return construct(trial.harness.subject, trial.contract, trial.case, seed=trial.case.seed)


def _list_parameters(trial: CaseContext, module: bool = False) -> dict[str, TensorInfo]:
    built = trial.compute_once(_construct_untouched)
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
