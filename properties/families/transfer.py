"""A function copies weights from one module into another, and changes nothing else."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor

from headcheck.properties.cases.case_transforms import at_least
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import ModuleAdapter, construct
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import CallOptions, TensorInfo
from headcheck.properties.violations.violation import Reason, Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.CONTRACT)
values = PropertyFamily(PropertyGroup.VALUES)


@values(
    C.TRANSFER,
    after=FORM,
    limit=2,
    on=at_least(tokens=3),
    hint="read v1's weights before and after, and compare them with v2's",
)
def every_weight_arrives(context: LiveContext) -> None:
    """Each weight of v1 gets the numbers of the corresponding weight of v2."""
    assert context.contract.transfer is not None
    source, target = context.contract.transfer
    case, parameters = context.case, context.parameters
    adapter = construct(context.harness.subject, context.contract, case)
    wanted = dict(target.to_stored(parameters, case))
    before = adapter.module.read(list(wanted))
    adapter.set(parameters)
    answer = adapter.forward(context.x, None, CallOptions()).outputs[0].double()
    after = adapter.module.read(list(wanted))
    wrong = [path for path, numbers in wanted.items() if not _are_same(after.get(path), numbers)]
    error = (answer - context.expected.outputs[0]).abs()
    if not wrong or bool((error <= context.tolerance.float32).all()):
        return  # other weights that compute the same are as good
    if all(_are_same(after.get(path), before[path]) for path in wanted):
        got = "v1 is as it was before the call: no number has arrived"
        told = "v2's numbers in v1", got
        raise Violation(ViolationKind.CONSTRUCTION, *told, reason=Reason.NOTHING_TRANSFERRED)
    path = wrong[0]
    counterparts = dict(zip(wanted, dict(source.to_stored(parameters, case)).items(), strict=True))
    name, _ = counterparts[path]
    got, reason = _recognise(after.get(path), before[path], counterparts.values())
    expected = f"the numbers of v2's `{name}` in v1's `{path}`"
    raise Violation(ViolationKind.CONSTRUCTION, expected, got, reason=reason)


def _recognise(
    came: Tensor | None, before: Tensor, sources: Collection[tuple[str, Tensor]]
) -> tuple[str, str]:
    """Return the source of the numbers in a weight of the target, in words and as a reason."""
    if _are_same(came, before):
        return "those that it had before the call", Reason.WEIGHT_NOT_TRANSFERRED
    for name, numbers in sources:
        if _are_same(came, numbers.T):
            return f"those of v2's `{name}`", Reason.ANOTHER_TRANSFERRED
        if _are_same(came, numbers):
            return f"those of v2's `{name}`, not transposed", ""
    return "other numbers", ""


def _are_same(one: Tensor | None, other: Tensor) -> bool:
    if one is None or one.shape != other.shape:
        return False
    return torch.allclose(one.double(), other.double())


@family_property(
    C.TRANSFER,
    after=FORM,
    limit=2,
    hint="only numbers move: v1 keeps its own parameters, v2 stays as it is",
    essential=True,
)
def afterwards_the_two_modules_are_independent(context: LiveContext) -> None:
    """The target keeps its own trainable parameters, and the source does not change."""
    adapter = construct(context.harness.subject, context.contract, context.case)
    before = adapter.holder.describe_tensors()
    own = adapter.module.read(list(adapter.module.describe_tensors()))
    context.run_module(adapter=adapter)
    _assert_target_parameters(adapter, context)
    after = adapter.holder.describe_tensors()
    for path, info in before.items():
        if after.get(path) != info:
            got = _describe_difference(info, after.get(path))
            raise Violation(ViolationKind.CONSTRUCTION, f"v2's `{path}` as it was", got)
    numbers = adapter.holder.read(list(before))
    for path, tensor in context.contract.to_stored(context.parameters, context.case):
        if path not in numbers or not torch.equal(numbers[path].double(), tensor.double()):
            came = numbers.get(path)
            turned = any(_are_same(came, each) or _are_same(came, each.T) for each in own.values())
            got = "it has v1's numbers now" if turned else "its numbers changed"
            reason = Reason.SOURCE_GOT_NUMBERS if turned else Reason.SOURCE_CHANGED
            expected = f"v2's `{path}` as it was"
            raise Violation(ViolationKind.VALUE, expected, got, reason=reason)
    answer = adapter.forward(context.x, None, CallOptions()).outputs[0].double()
    adapter.holder.write({path: torch.zeros_like(t) for path, t in numbers.items()})
    after_zeros = adapter.forward(context.x, None, CallOptions()).outputs[0].double()
    where = "output of v1 after v2's weights have been set to zero"
    context.assert_unchanged(after_zeros, answer, context.expected.tolerances[0], where)


@family_property(
    C.TRANSFER,
    after=(afterwards_the_two_modules_are_independent,),
    limit=1,
    on=at_least(tokens=3),
    hint="copy numbers only: neither flags nor gradients nor modes",
)
def only_numbers_are_transferred(context: LiveContext) -> None:
    """From a source that is frozen, has gradients or is in evaluation, only numbers are copied."""
    assert context.contract.transfer is not None
    source_contract, target_contract = context.contract.transfer
    subject, case = context.harness.subject, context.case
    for trainable, training in ((False, True), (True, False)):
        source, target = (construct(subject, c, case) for c in (source_contract, target_contract))
        source.set(context.parameters)
        source.module.prepare(trainable=trainable, training=training)
        target.module.prepare(trainable=True, training=not training)
        modules = {"v2": source.module, "v1": target.module}
        before = {n: (m.describe_tensors(), m.list_modes()) for n, m in modules.items()}
        subject.call(context.contract.name, [source.module, target.module])
        for name, module in modules.items():
            _assert_state_kept(name, before[name], (module.describe_tensors(), module.list_modes()))


def _assert_state_kept(
    module: str,
    before: tuple[Mapping[str, TensorInfo], Sequence[bool]],
    after: tuple[Mapping[str, TensorInfo], Sequence[bool]],
) -> None:
    for path, info in before[0].items():
        now = after[0].get(path)
        if now is not None and module == "v1" and not now.has_gradient:
            now = replace(now, has_gradient=info.has_gradient)  # a new parameter has none yet
        if now != info:
            got = _describe_difference(info, now)
            raise Violation(ViolationKind.CONSTRUCTION, f"{module}'s `{path}` as it was", got)
    if before[1] != after[1]:
        got = "it was switched between training and evaluation"
        raise Violation(ViolationKind.VALUE, f"{module} in its mode", got)


def _assert_target_parameters(adapter: ModuleAdapter, context: LiveContext) -> None:
    registered = adapter.module.describe_tensors()
    for path, shape in adapter.contract.callee.get_parameter_shapes(context.case).items():
        if path not in registered or not registered[path].trainable:
            frozen = path in registered
            got = "requires_grad=False" if frozen else "it is not"
            reason = Reason.FROZEN if frozen else Reason.UNREGISTERED
            expected = f"v1's `{path}` a trainable parameter"
            raise Violation(ViolationKind.CONSTRUCTION, expected, got, reason=reason)
        if registered[path].shape != shape:
            got = f"shape {registered[path].shape}"
            raise Violation(ViolationKind.SHAPE, f"shape {shape}", got, f"v1's `{path}`")


def _describe_difference(before: TensorInfo, after: TensorInfo | None) -> str:
    if after is None:
        return "it is gone"
    changed = [f.name for f in fields(before) if getattr(before, f.name) != getattr(after, f.name)]
    return ", ".join(f"{name}={getattr(after, name)}" for name in changed)
