"""One constructed implementation, addressed in canonical terms.

Whatever the contract's entry point is (a class, a function that builds a module, a plain function,
a function that transfers weights), an adapter takes canonical parameters and tokens with a batch
axis, and returns outputs with a batch axis.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.cases.case_tensors import DTYPES, convert_to_stored, name_gradients
from headcheck.properties.cases.fitting_mask import add_required_masks
from headcheck.properties.contracts.contract import Capability, Contract, Entry
from headcheck.properties.contracts.variant import describe_call, describe_rotation, get_variant
from headcheck.properties.harness.call_sizes import add_call_sizes
from headcheck.properties.subject import (
    CallOptions,
    CallResult,
    Chunk,
    Gradients,
    Module,
    Pass,
    PassResult,
    Subject,
    Value,
)
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters, multi_head_attention


@dataclass(frozen=True, eq=False)
class NamedPassResult:
    """The results of one pass of a series, by canonical names."""

    output: Tensor
    input_gradients: Mapping[int, Tensor | None]
    gradients: Mapping[str, Tensor | None]
    parameters: Parameters | None
    """the parameters after a step of gradient descent"""


@dataclass(eq=False)
class ModuleAdapter:
    """One module of the submission: `module` is called, `holder` keeps the parameters."""

    contract: Contract
    case: Case
    module: Module
    holder: Module
    subject: Subject
    current_parameters: Parameters | None = None
    stored: dict[str, Tensor] = field(default_factory=dict)
    """the parameters that were set last, as the module stores them"""

    def set(self, parameters: Parameters) -> None:
        """Set the parameters, unless they are set already."""
        if self.current_parameters is parameters:
            return
        changed = self._list_changed(parameters)
        if self.contract.entry is not Entry.FUNCTION and changed:
            self.holder.write(changed)
        if self.contract.entry is Entry.TRANSFER:
            with add_call_sizes(self.contract, self.case):
                self.subject.call(self.contract.name, [self.holder, self.module])
        self.current_parameters = parameters

    def _list_changed(self, parameters: Parameters) -> dict[str, Tensor]:
        """Return the stored tensors that differ from the current ones."""
        known = {} if self.current_parameters is None else self.stored
        converted = self._convert(parameters)
        return {
            path: tensor
            for path, tensor in converted.items()
            if path not in known or not torch.equal(known[path], tensor)
        }

    def _convert(self, parameters: Parameters) -> dict[str, Tensor]:
        """Return parameters as the module stores them, and remember them as its current ones."""
        self.stored = convert_to_stored(self.contract, self.case, parameters)
        return self.stored

    def load(self, parameters: Parameters) -> None:
        """Set the parameters through the state dict."""
        self.holder.load(self._convert(parameters))
        self.current_parameters = parameters

    def exchange(self, parameters: Parameters) -> None:
        """Replace all parameters by new ones."""
        self.holder.exchange(self._convert(parameters))
        self.current_parameters = parameters

    def exchange_layers(self, parameters: Parameters) -> None:
        """Replace the layers that hold parameters by new layers with these parameters."""
        self.holder.exchange(self._convert(parameters), layers=True)
        self.current_parameters = parameters

    def read(self) -> Parameters:
        """Return the current parameters in float64. Raises Violation if one is missing."""
        found = self.holder.read(list(self.contract.get_parameter_shapes(self.case)))
        doubles = {path: tensor.double() for path, tensor in found.items()}
        return Parameters(**self.contract.to_canonical(doubles, self.case))

    def run_series(
        self,
        inputs: Sequence[tuple[Tensor, Tensor | None]],
        cotangents: Sequence[Tensor],
        passes: Sequence[Pass],
    ) -> list[NamedPassResult]:
        """Run passes one after the other, without ever reseeding.

        Raises Violation if a gradient's shape differs from its tensor's.
        """
        paths = list(self.contract.callee.get_parameter_shapes(self.case))
        results = self.module.run_series(
            [self.build_inputs(x, mask) for x, mask in inputs],
            [self._convert_cotangent(cotangent) for cotangent in cotangents],
            passes,
            paths,
        )
        self.current_parameters = None
        return [self._name_pass(result) for result in results]

    def _name_pass(self, result: PassResult) -> NamedPassResult:
        contract, case = self.contract.callee, self.case
        weights = {path: tensor.double() for path, tensor in result.weights.items()}
        named = name_gradients(contract, case, None, result.gradients) if result.gradients else {}
        return NamedPassResult(
            self._add_axis(result.output),
            {
                n: None if t is None else self._add_axis(t)
                for n, t in result.input_gradients.items()
            },
            {name: gradient for name, gradient in named.items() if name != "x"},
            Parameters(**contract.to_canonical(weights, case)) if weights else None,
        )

    def _add_axis(self, tensor: Tensor) -> Tensor:
        return tensor if self.has_batch_axis else tensor.unsqueeze(0)

    def copy(self, way: str) -> "ModuleAdapter":
        """Return an adapter of a copy with the same state, made by "deepcopy" or "state_dict"."""
        module = self.module.copy(way)
        holder = module if self.holder is self.module else self.holder
        return replace(self, module=module, holder=holder)

    def build_inputs(self, x: Tensor, mask: Tensor | None) -> list[Tensor]:
        """Return the arguments of the call, in order."""
        own = x if self.has_batch_axis else x[0]
        if self.contract.is_handed_parameters:
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
        asked = self.contract, self.case
        scale, variant = get_scale(*asked), get_variant(*asked)
        exact = multi_head_attention(
            x, self.current_parameters, self.case.heads, None, scale, variant=variant
        )
        arguments = {"x": own, "queries": exact.query[0, 0], "keys": exact.key[0, 0]}
        arguments.update(self.contract.to_stored(self.current_parameters, self.case))
        return {name: tensor.to(dtype) for name, tensor in arguments.items()}

    def forward(self, x: Tensor, mask: Tensor | None, options: CallOptions) -> CallResult:
        """Call the module; return every output with a batch axis."""
        with self._add_sizes(x):
            result = self.module.forward(self.build_inputs(x, mask), options)
        return self._add_batch_axis(result)

    def _add_sizes(self, x: Tensor) -> AbstractContextManager[None]:
        """Add the sizes of a call with these tokens to a crash that happens inside."""
        return add_call_sizes(self.contract, self.case, x)

    def forward_apart(
        self, x: Tensor, others: Sequence[Tensor], options: CallOptions | None = None
    ) -> CallResult:
        """Call the module with other tokens for keys, or for keys and values."""
        dtype = DTYPES[self.case.dtype]
        given = [(t if self.has_batch_axis else t[0]).to(dtype) for t in (x, *others)]
        options = replace(options or CallOptions(), apart=len(given))
        with add_call_sizes(self.contract, self.case, x, others):
            result = self.module.forward(given, options)
        return self._add_batch_axis(result)

    def vjp_apart(
        self,
        inputs: Sequence[Tensor],
        cotangent: Tensor,
        only: int | None = None,
        *,
        output: int = 0,
        times: int = 1,
    ) -> list[Tensor | None]:
        """Return the gradients of the tokens for queries, keys and values, or for one of them."""
        found = self._vjp_apart(inputs, cotangent, only=only, output=output, times=times).inputs
        return [None if each is None else self._add_axis(each) for each in found]

    def count_held_apart(self, inputs: Sequence[Tensor], cotangent: Tensor) -> tuple[int, int]:
        """Return how many numbers are kept for the backward, and the peak during both passes."""
        found = self._vjp_apart(inputs, cotangent, counted=True)
        return found.kept, found.held

    def _vjp_apart(self, inputs: Sequence[Tensor], cotangent: Tensor, **how: Any) -> Gradients:
        dtype = DTYPES[self.case.dtype]
        given = [(t if self.has_batch_axis else t[0]).to(dtype) for t in inputs]
        own = self._convert_cotangent(cotangent)
        with add_call_sizes(self.contract, self.case, inputs[0], inputs[1:]):
            return self.module.vjp(given, own, (), None, apart=len(given), **how)

    def _add_batch_axis(self, result: CallResult) -> CallResult:
        if self.has_batch_axis:
            return result
        return replace(
            result,
            outputs=tuple(map(self._add_axis, result.outputs)),
            inputs_after=tuple(map(self._add_axis, result.inputs_after)),
        )

    def _convert_cotangent(self, cotangent: Tensor) -> Tensor:
        """Return a cotangent in the dtype and the shape of the module's own output."""
        converted = cotangent.to(DTYPES[self.case.dtype])
        return converted if self.has_batch_axis else converted[0]

    def refill(
        self, first: Tensor, x: Tensor, mask: Tensor | None, reuse: str, grad: str
    ) -> CallResult:
        """Call the module for `first` unmasked, then for `x` and `mask`: see `Module.refill`."""
        ones = None if mask is None else torch.ones_like(mask)
        earlier, later = self.build_inputs(first, ones), self.build_inputs(x, mask)
        with self._add_sizes(x):
            result = self.module.refill(earlier, later, reuse, grad)
        return self._add_batch_axis(result)

    def decode(
        self, chunks: Sequence[Chunk], counted: bool = False, manner: str = "usual"
    ) -> list[CallResult]:
        """Call the module for chunks of tokens with a batch axis; weights are by attribute path."""
        masked = add_required_masks(self.contract.call_form.mask, chunks)
        sent = [replace(each, tokens=self.build_inputs(each.tokens, None)[0]) for each in masked]
        return [
            self._add_batch_axis(result) for result in self.module.decode(sent, counted, manner)
        ]

    def call_within(
        self, way: str, x: Tensor, mask: Tensor | None, parameters: Parameters
    ) -> CallResult:
        """Call the module within a torch transform, with these parameters if that takes any."""
        dtype = DTYPES[self.case.dtype]
        stored = self.contract.to_stored(parameters, self.case) if way == "functional_call" else ()
        weights = {path: tensor.to(dtype) for path, tensor in stored}
        with self._add_sizes(x):
            result = self.module.call_within(way, self.build_inputs(x, mask), weights)
        return self._add_batch_axis(result)

    def overwrite_results(self, x: Tensor, mask: Tensor | None) -> CallResult:
        """Call the module, overwrite the results, and call it again."""
        with self._add_sizes(x):
            result = self.module.overwrite_results(self.build_inputs(x, mask))
        return self._add_batch_axis(result)

    def nest(self) -> "ModuleAdapter":
        """Return an adapter of a larger module that contains this one's module."""
        mappings = (replace(m, path=f"child.{m.path}") for m in self.contract.mappings)
        module = self.module.nest()
        contract = replace(self.contract, mappings=tuple(mappings))
        return replace(self, contract=contract, module=module, holder=module)

    def vjp(
        self,
        x: Tensor,
        cotangent: Tensor,
        mask: Tensor | None,
        output: int = 0,
        only: str | None = None,
        memory: str = "contiguous",
    ) -> dict[str, Tensor | None]:
        """Return the gradients of sum(output * cotangent) by canonical name; None for none.

        For a function, `only` names the only argument that requires a gradient. `memory` is the
        layout of x and of the cotangent.
        """
        inputs, cotangent = self.build_inputs(x, None), self._convert_cotangent(cotangent)
        if self.contract.is_handed_parameters:
            contract = self.contract
            number = None if only is None else contract.call.index(only)
            with self._add_sizes(x):
                gradients = self.module.vjp(inputs, cotangent, (), None, 0, number, memory=memory)
            stored = dict(zip(contract.call, gradients.inputs, strict=True))
            own = stored.pop("x")
        else:
            contract = self.contract.callee
            paths = list(contract.get_parameter_shapes(self.case))
            with self._add_sizes(x):
                gradients = self.module.vjp(inputs, cotangent, paths, mask, output, memory=memory)
            own, stored = gradients.inputs[0], dict(gradients.parameters)
        if own is not None and not self.has_batch_axis:
            own = own.unsqueeze(0)
        return name_gradients(contract, self.case, own, stored)


def construct(
    subject: Subject, contract: Contract, case: Case, seed: int | None = None
) -> ModuleAdapter:
    """Build a module of the submission for this case, in its dtype and on its device.

    Raises SubmissionFailed if the submission's constructor raises.
    """
    match contract.entry:
        case Entry.FUNCTION:
            numbers = contract.build_arguments(case)
            rotation = describe_rotation(contract, case)
            form = contract.call_form.to_meta(case.heads, numbers, case.kv_heads, rotation)
            module = holder = subject.get_function(contract.name, form=form)
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
    return build_module(subject, contract, case, arguments, seed)


def build_module(
    subject: Subject,
    contract: Contract,
    case: Case,
    arguments: Mapping[str, Value],
    seed: int | None = None,
    *,
    given: str = "by name",
) -> Module:
    """Build a module with these arguments, to be called in the usual form.

    Raises SubmissionFailed if the submission's constructor raises.
    """
    with add_call_sizes(contract, case):
        return subject.construct(
            contract.name,
            arguments,
            seed,
            case.dtype,
            case.device,
            given=given,
            form=describe_call(contract, case),
            variables=contract.build_variables(case),
        )
