"""One constructed implementation, addressed in canonical terms.

Whatever the contract's entry point is (a class, a function that builds a module, a plain function,
a function that transfers weights), an adapter takes canonical parameters, and tokens with a batch
axis, and returns outputs that have one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from properties.case import Case
from properties.cases.case_tensors import DTYPES
from properties.contract import Capability, Contract, Entry
from properties.oracle import get_scale
from properties.subject import CallOptions, CallResult, Module, Subject
from reference import Parameters, multi_head_attention


@dataclass(eq=False)
class ModuleAdapter:
    """One module of the submission: `module` is called, `holder` keeps the parameters."""

    contract: Contract
    case: Case
    module: Module
    holder: Module
    subject: Subject
    current_parameters: Parameters | None = None

    def set(self, parameters: Parameters) -> None:
        """Set the parameters, unless they are set already."""
        if self.current_parameters is parameters:
            return
        dtype = DTYPES[self.case.dtype]
        stored = {p: t.to(dtype) for p, t in self.contract.to_stored(parameters, self.case)}
        if self.contract.entry is not Entry.FUNCTION and stored:
            self.holder.write(stored)
        if self.contract.entry is Entry.TRANSFER:
            self.subject.call(self.contract.name, [self.holder, self.module])
        self.current_parameters = parameters

    def load(self, parameters: Parameters) -> None:
        """Set the parameters through the state dict."""
        dtype = DTYPES[self.case.dtype]
        stored = self.contract.to_stored(parameters, self.case)
        self.holder.load({path: tensor.to(dtype) for path, tensor in stored})
        self.current_parameters = parameters

    def read(self) -> Parameters:
        """Return the present parameters in float64. Raises Violation where one is missing."""
        found = self.holder.read(list(self.contract.get_parameter_shapes(self.case)))
        doubles = {path: tensor.double() for path, tensor in found.items()}
        return Parameters(**self.contract.to_canonical(doubles, self.case))

    def descend(self, x: Tensor, cotangent: Tensor, mask: Tensor | None, rate: float) -> None:
        """Take a step of gradient descent on sum(output * cotangent)."""
        inputs = self.build_inputs(x, None)
        self.module.descend(inputs, self._convert_cotangent(cotangent), mask, rate)
        self.current_parameters = None

    def copy(self, way: str) -> "ModuleAdapter":
        """Return another one with the same state, by "deepcopy" or through "state_dict"."""
        module = self.module.copy(way)
        holder = module if self.holder is self.module else self.holder
        return replace(self, module=module, holder=holder)

    def build_inputs(self, x: Tensor, mask: Tensor | None) -> list[Tensor]:
        """Return the arguments of the call, in order."""
        own = x if self.has_batch_axis else x[0]
        if self.contract.entry is Entry.FUNCTION:
            arguments = self._build_arguments(x, own)
            return [arguments[name] for name in self.contract.call]
        tensors = [own.to(DTYPES[self.case.dtype])]
        return tensors if mask is None else [*tensors, mask]

    @property
    def has_batch_axis(self) -> bool:
        """Whether the implementation itself has a batch axis."""
        return self.contract.has(Capability.BATCH)

    def _build_arguments(self, x: Tensor, own: Tensor) -> Mapping[str, Tensor]:
        assert self.current_parameters is not None, "set the parameters before calling"
        dtype = DTYPES[self.case.dtype]
        exact = multi_head_attention(
            x, self.current_parameters, self.case.heads, scale=get_scale(self.contract, self.case)
        )
        arguments = {"x": own, "queries": exact.query[0, 0], "keys": exact.key[0, 0]}
        arguments.update(self.contract.to_stored(self.current_parameters, self.case))
        return {name: tensor.to(dtype) for name, tensor in arguments.items()}

    def forward(self, x: Tensor, mask: Tensor | None, options: CallOptions) -> CallResult:
        """Call the module; return every output with a batch axis."""
        return self._add_batch_axis(self.module.forward(self.build_inputs(x, mask), options))

    def _add_batch_axis(self, result: CallResult) -> CallResult:
        if self.has_batch_axis:
            return result
        return replace(
            result,
            outputs=tuple(output.unsqueeze(0) for output in result.outputs),
            inputs_after=tuple(t.unsqueeze(0) for t in result.inputs_after),
        )

    def _convert_cotangent(self, cotangent: Tensor) -> Tensor:
        """Return a cotangent in the dtype and the shape of the module's own output."""
        converted = cotangent.to(DTYPES[self.case.dtype])
        return converted if self.has_batch_axis else converted[0]

    def refill(self, first: Tensor, x: Tensor, mask: Tensor | None) -> CallResult:
        """Call it for `first` with nothing masked, then for `x` and `mask` in the same tensors."""
        ones = None if mask is None else torch.ones_like(mask)
        return self._add_batch_axis(
            self.module.refill(self.build_inputs(first, ones), self.build_inputs(x, mask))
        )

    def vjp(self, x: Tensor, cotangent: Tensor, mask: Tensor | None) -> dict[str, Tensor | None]:
        """Return the gradients of sum(output * cotangent) by canonical name; None for none."""
        inputs, cotangent = self.build_inputs(x, None), self._convert_cotangent(cotangent)
        if self.contract.entry is Entry.FUNCTION:
            contract = self.contract
            gradients = self.module.vjp(inputs, cotangent, (), None)
            stored = dict(zip(contract.call, gradients.inputs, strict=True))
            own = stored.pop("x")
        else:
            contract = self.contract.callee
            paths = list(contract.get_parameter_shapes(self.case))
            gradients = self.module.vjp(inputs, cotangent, paths, mask)
            own, stored = gradients.inputs[0], dict(gradients.parameters)
        if own is not None and not self.has_batch_axis:
            own = own.unsqueeze(0)
        return name_gradients(contract, self.case, own, stored)


def name_gradients(
    contract: Contract, case: Case, x: Tensor | None, stored: Mapping[str, Tensor | None]
) -> dict[str, Tensor | None]:
    """Return gradients of the input and of stored tensors by canonical name; None for no gradient.

    Raises Violation where a gradient has another shape than its tensor.
    """
    shapes = contract.get_parameter_shapes(case)
    filled = {
        path: torch.zeros(shapes.get(path, ())) if grad is None else grad
        for path, grad in stored.items()
    }
    missing = {
        name: None
        for mapping in contract.mappings
        for head in range(case.heads)
        if stored.get(mapping.path.format(head=head), mapping) is None
        for name in mapping.holds
    }
    return {"x": x, **contract.to_canonical(filled, case), **missing}


def construct(
    subject: Subject, contract: Contract, case: Case, seed: int | None = None
) -> ModuleAdapter:
    """Build a module of the submission for this case, in its dtype and on its device.

    Raises SubmissionFailed when the submission's constructor raises.
    """
    match contract.entry:
        case Entry.FUNCTION:
            module = holder = subject.get_function(contract.name)
            module.move(None, case.device)  # a function has no dtype, but its inputs have a device
        case Entry.TRANSFER:
            assert contract.transfer is not None, "a transfer contract names both modules"
            source, target = contract.transfer
            holder = _build_module(subject, source, case, seed)
            module = _build_module(subject, target, case, seed)
        case Entry.CLASS | Entry.BUILDER:
            holder = module = _build_module(subject, contract, case, seed)
    return ModuleAdapter(contract, case, module, holder, subject)


def _build_module(subject: Subject, contract: Contract, case: Case, seed: int | None) -> Module:
    arguments = contract.build_arguments(case)
    return subject.construct(contract.name, arguments, seed, case.dtype, case.device)
