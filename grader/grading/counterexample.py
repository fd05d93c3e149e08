"""A counterexample as lines of Python that a student can paste below their own definition."""

from dataclasses import fields

import torch
from torch import Tensor

from grader.report.records import Counterexample
from properties.case import Case
from properties.contract import Contract, Entry
from properties.harness.harness import LiveContext

MAX_ELEMENTS = 64  # numbers in one tensor that are still worth writing out


def build_counterexample(context: LiveContext) -> Counterexample:
    """The smallest failing case, and code that shows what it gives."""
    return Counterexample(case=_list_fields(context.case), code=render_code(context))


def _list_fields(case: Case) -> dict[str, str | int | float | bool]:
    return {field.name: getattr(case, field.name) for field in fields(case)}


def render_code(context: LiveContext) -> str | None:
    """Lines that build the module with the case's weights and call it; None if they were long."""
    contract, case = context.contract, context.case
    stored = contract.to_stored(context.parameters, case)
    tensors = [context.x, *(tensor for _, tensor in stored)]
    exotic = contract.entry is Entry.TRANSFER or case.dtype != "float64"
    if exotic or any(t.numel() > MAX_ELEMENTS for t in tensors):
        return None
    lines = ["import torch", ""]
    if contract.entry is Entry.FUNCTION:
        lines += _render_call(context)
    else:
        lines += _render_construction(contract, case)
        lines += [_render_assignment(path, tensor) for path, tensor in stored]
        lines.append(
            f"x = {_render_tensor(context.x if context.adapter.has_batch_axis else context.x[0])}"
        )
        mask = context.mask
        if mask is None:
            lines.append("print(module(x))")
        else:
            lines += [f"mask = {_render_tensor(mask)}", "print(module(x, mask))"]
    lines += [f"# expected {name}: {_render_rounded(t)}" for name, t in _list_expected(context)]
    return "\n".join(lines)


def _list_expected(context: LiveContext) -> list[tuple[str, Tensor]]:
    outputs = context.expected.outputs
    if not context.adapter.has_batch_axis:
        outputs = tuple(output[0] for output in outputs)
    return list(zip(context.output_names, outputs, strict=True))


def _render_construction(contract: Contract, case: Case) -> list[str]:
    lines, arguments = [], []
    for name, value in contract.build_arguments(case).items():
        if isinstance(value, dict):
            pairs = ", ".join(f"{k}={v!r}" for k, v in value.items())
            lines += ["from types import SimpleNamespace", f"config = SimpleNamespace({pairs})"]
            arguments.append("config")
        else:
            arguments.append(f"{name}={value!r}")
    return [*lines, f"module = {contract.name}({', '.join(arguments)}).double().eval()"]


def _render_assignment(path: str, tensor: Tensor) -> str:
    steps = "".join(f"[{p}]" if p.isdigit() else f".{p}" for p in path.split("."))
    return f"module{steps}.data = {_render_tensor(tensor)}"


def _render_call(context: LiveContext) -> list[str]:
    context.adapter.set(context.parameters)
    given = zip(context.contract.call, context.adapter.build_inputs(context.x, None), strict=True)
    lines = [f"{name} = {_render_tensor(tensor)}" for name, tensor in given]
    return [*lines, f"print({context.contract.name}({', '.join(context.contract.call)}))"]


def _render_tensor(tensor: Tensor) -> str:
    dtype = str(tensor.dtype)
    if tensor.numel() == 0:
        return f"torch.zeros({tuple(tensor.shape)}, dtype={dtype})"
    return f"torch.tensor({tensor.tolist()}, dtype={dtype})"


def _render_rounded(tensor: Tensor) -> str:
    return str(torch.round(tensor, decimals=6).tolist())
