"""Render counterexamples as lines of Python that students can paste below their definition."""

from dataclasses import fields

import torch
from torch import Tensor

from headcheck.grader.report.records import Counterexample
from headcheck.properties.contracts.contract import Contract, Entry
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.terms.call_form import MaskConvention, TokenAxes
from headcheck.properties.terms.case import Case

MAX_ELEMENTS = 64  # larger tensors are not written out


def build_counterexample(context: LiveContext) -> Counterexample:
    """Return the smallest failing case, and code that runs it."""
    case = {field.name: getattr(context.case, field.name) for field in fields(context.case)}
    return Counterexample(case=case, code=render_code(context))


def render_code(context: LiveContext) -> str | None:
    """Render lines that build the module with the case's weights and call it; None if too long."""
    contract, case = context.contract, context.case
    stored = contract.to_stored(context.parameters, case)
    tensors = [context.x, *(tensor for _, tensor in stored)]
    exotic = contract.entry is Entry.TRANSFER or case.dtype != "float64" or _is_converted(context)
    if exotic or any(t.numel() > MAX_ELEMENTS for t in tensors):
        return None
    lines = ["import torch", ""]
    if contract.is_handed_parameters:
        lines += _render_call(context)
    else:
        lines += [] if contract.entry is Entry.FUNCTION else _render_construction(contract, case)
        lines += [_render_assignment(path, tensor) for path, tensor in stored]
        x = context.x if context.adapter.has_batch_axis else context.x[0]
        lines.append(f"x = {_render_tensor(x)}")
        if context.mask is not None:
            lines.append(f"mask = {_render_tensor(context.mask)}")
        called = contract.name if contract.entry is Entry.FUNCTION else "module"
        lines.append(f"print({called}({', '.join(_list_inputs(context))}))")
    for name, output in zip(context.output_names, context.expected.outputs, strict=True):
        expected = output if context.adapter.has_batch_axis else output[0]
        lines.append(f"# expected {name}: {torch.round(expected, decimals=6).tolist()}")
    return "\n".join(lines)


def _is_converted(context: LiveContext) -> bool:
    """Whether tokens or the mask are passed in a form other than that in which they are drawn."""
    form = context.contract.call_form
    masked = context.mask is not None and form.mask != MaskConvention()
    return masked or form.mask.required or form.axes is not TokenAxes.BATCH_FIRST


def _list_inputs(context: LiveContext) -> list[str]:
    """Return the names of the variables that are passed to self-attention."""
    roles = context.contract.call_form.inputs
    inputs = ["mask" if role == "mask" else "x" for role in roles]
    numbers = []
    if context.contract.entry is Entry.FUNCTION:
        given = context.contract.build_arguments(context.case).values()
        numbers = [repr(value) for value in given]
    if context.mask is None:  # what comes after a mask keeps its place
        inputs = [each if each == "x" else "None" for each in inputs if each == "x" or numbers]
    return inputs + numbers


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
    inputs = zip(context.contract.call, context.adapter.build_inputs(context.x, None), strict=True)
    lines = [f"{name} = {_render_tensor(tensor)}" for name, tensor in inputs]
    return [*lines, f"print({context.contract.name}({', '.join(context.contract.call)}))"]


def _render_tensor(tensor: Tensor) -> str:
    dtype = str(tensor.dtype)
    if tensor.numel() == 0:
        return f"torch.zeros({tuple(tensor.shape)}, dtype={dtype})"
    return f"torch.tensor({tensor.tolist()}, dtype={dtype})"
