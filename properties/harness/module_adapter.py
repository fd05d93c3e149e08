"""One constructed implementation, addressed in canonical terms.

Whatever the contract's entry point is (a class, a function that builds a module, a plain function,
a function that moves weights), an instance takes canonical parameters and tokens with a batch axis
and answers with outputs that have one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from properties.case import Case
from properties.cases.case_tensors import DTYPES
from properties.contract import Contract, Entry, Trait
from properties.oracle import scale_of
from properties.subject import How, Module, Returned, Subject
from reference import Parameters, multi_head_attention


@dataclass(eq=False)
class Instance:
    """A module of the submission; `module` answers calls, `holder` keeps the parameters."""

    contract: Contract
    case: Case
    module: Module
    holder: Module
    subject: Subject
    current: Parameters | None = None

    def set(self, parameters: Parameters) -> None:
        """Give it these parameters, unless it has them already."""
        if self.current is parameters:
            return
        dtype = DTYPES[self.case.dtype]
        stored = {p: t.to(dtype) for p, t in self.contract.stored(parameters, self.case)}
        if self.contract.entry is not Entry.FUNCTION and stored:
            self.holder.write(stored)
        if self.contract.entry is Entry.TRANSFER:
            self.subject.call(self.contract.name, [self.holder, self.module])
        self.current = parameters

    def load(self, parameters: Parameters) -> None:
        """Give it these parameters by way of its state dict."""
        dtype = DTYPES[self.case.dtype]
        stored = self.contract.stored(parameters, self.case)
        self.holder.load({path: tensor.to(dtype) for path, tensor in stored})
        self.current = parameters

    def read(self) -> Parameters:
        """The parameters that it has now, in float64. Raises Violation where one is missing."""
        found = self.holder.read(list(self.contract.paths(self.case)))
        doubles = {path: tensor.double() for path, tensor in found.items()}
        return Parameters(**self.contract.canonical(doubles, self.case))

    def descend(self, x: Tensor, cotangent: Tensor, mask: Tensor | None, rate: float) -> None:
        """Take a step of gradient descent on sum(output * cotangent)."""
        given = cotangent.to(DTYPES[self.case.dtype])
        given = given if self.batched else given[0]
        self.module.descend(self.inputs(x, None), given, mask, rate)
        self.current = None

    def copy(self, way: str) -> "Instance":
        """Another one with the same state: by "deepcopy", or through "state_dict"."""
        module = self.module.copy(way)
        holder = module if self.holder is self.module else self.holder
        return replace(self, module=module, holder=holder)

    def inputs(self, x: Tensor, mask: Tensor | None) -> list[Tensor]:
        """The arguments of the call, in order."""
        own = x if self.batched else x[0]
        if self.contract.entry is Entry.FUNCTION:
            given = self._arguments(x, own)
            return [given[name] for name in self.contract.call]
        tensors = [own.to(DTYPES[self.case.dtype])]
        return tensors if mask is None else [*tensors, mask]

    @property
    def batched(self) -> bool:
        """Whether the implementation itself knows a batch axis."""
        return self.contract.has(Trait.BATCH)

    def _arguments(self, x: Tensor, own: Tensor) -> Mapping[str, Tensor]:
        assert self.current is not None, "set the parameters before calling"
        dtype = DTYPES[self.case.dtype]
        exact = multi_head_attention(
            x, self.current, self.case.heads, scale=scale_of(self.contract, self.case)
        )
        given = {"x": own, "queries": exact.query[0, 0], "keys": exact.key[0, 0]}
        given.update(self.contract.stored(self.current, self.case))
        return {name: tensor.to(dtype) for name, tensor in given.items()}

    def forward(self, x: Tensor, mask: Tensor | None, how: How) -> Returned:
        """Call it; every output comes back with a batch axis."""
        return self._with_batch(self.module.forward(self.inputs(x, mask), how))

    def _with_batch(self, returned: Returned) -> Returned:
        if self.batched:
            return returned
        return replace(
            returned,
            outputs=tuple(output.unsqueeze(0) for output in returned.outputs),
            inputs_after=tuple(t.unsqueeze(0) for t in returned.inputs_after),
        )

    def refill(self, first: Tensor, x: Tensor, mask: Tensor | None) -> Returned:
        """The outputs for these, in tensors that held `first` and no blocks in a call before."""
        ones = None if mask is None else torch.ones_like(mask)
        return self._with_batch(self.module.refill(self.inputs(first, ones), self.inputs(x, mask)))

    def vjp(self, x: Tensor, cotangent: Tensor, mask: Tensor | None) -> dict[str, Tensor | None]:
        """The gradients of sum(output * cotangent), by canonical name; None where there is none."""
        inputs = self.inputs(x, None)
        given = cotangent.to(DTYPES[self.case.dtype])
        given = given if self.batched else given[0]
        if self.contract.entry is Entry.FUNCTION:
            found = self.module.vjp(inputs, given, (), None)
            stored = dict(zip(self.contract.call, found.inputs, strict=True))
            own = self._with_axis(stored.pop("x"))
            return by_canonical_name(self.contract, self.case, own, stored)
        answering = self.contract.answering
        found = self.module.vjp(inputs, given, list(answering.paths(self.case)), mask)
        own = self._with_axis(found.inputs[0])
        return by_canonical_name(answering, self.case, own, found.parameters)

    def _with_axis(self, x: Tensor | None) -> Tensor | None:
        return x if x is None or self.batched else x.unsqueeze(0)


def by_canonical_name(
    contract: Contract, case: Case, x: Tensor | None, stored: Mapping[str, Tensor | None]
) -> dict[str, Tensor | None]:
    """Gradients of the input and of what lies at these paths, by canonical name; None for none.

    Raises Violation where one has another shape than what it belongs to.
    """
    shapes = contract.paths(case)
    filled = {
        path: torch.zeros(shapes.get(path, ())) if grad is None else grad
        for path, grad in stored.items()
    }
    missing = {
        name: None
        for slot in contract.slots
        for head in range(case.heads)
        if stored.get(slot.path.format(head=head), slot) is None
        for name in slot.holds
    }
    return {"x": x, **contract.canonical(filled, case), **missing}


def construct(
    subject: Subject, contract: Contract, case: Case, seed: int | None = None
) -> Instance:
    """Build an instance of the submission for this case, in the dtype of the case.

    Raises SubmissionFailed when the submission's constructor does.
    """
    match contract.entry:
        case Entry.FUNCTION:
            module = holder = subject.function(contract.name)
            module.move(None, case.device)  # it has no dtype of its own, but its inputs go there
        case Entry.TRANSFER:
            assert contract.transfer is not None, "a transfer contract names both modules"
            source, target = contract.transfer
            holder = _built(subject, source, case, seed)
            module = _built(subject, target, case, seed)
        case Entry.CLASS | Entry.BUILDER:
            holder = module = _built(subject, contract, case, seed)
    return Instance(contract, case, module, holder, subject)


def _built(subject: Subject, contract: Contract, case: Case, seed: int | None) -> Module:
    arguments = contract.arguments_for(case)
    return subject.construct(contract.name, arguments, seed, case.dtype, case.device)
