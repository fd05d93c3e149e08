"""A counterexample as lines of Python that a student can paste below their own definition."""

from dataclasses import fields

import torch
from torch import Tensor

from grader.report.records import Counterexample
from properties.case import Case
from properties.contract import Contract, Entry
from properties.harness.harness import Trial

SMALL = 64  # numbers in one tensor that are still worth writing out


def of(trial: Trial) -> Counterexample:
    """The smallest failing case, and code that shows what it gives."""
    return Counterexample(case=_plain(trial.case), code=code(trial))


def _plain(case: Case) -> dict[str, str | int | float | bool]:
    return {field.name: getattr(case, field.name) for field in fields(case)}


def code(trial: Trial) -> str | None:
    """Lines that build the module with the case's weights and call it; None if they were long."""
    contract, case = trial.contract, trial.case
    stored = contract.stored(trial.parameters, case)
    tensors = [trial.x, *(tensor for _, tensor in stored)]
    exotic = contract.entry is Entry.TRANSFER or case.dtype != "float64"
    if exotic or any(t.numel() > SMALL for t in tensors):
        return None
    lines = ["import torch", ""]
    if contract.entry is Entry.FUNCTION:
        lines += _call_function(trial)
    else:
        lines += _build(contract, case)
        lines += [_set(path, tensor) for path, tensor in stored]
        lines.append(f"x = {_literal(trial.x if trial.instance.batched else trial.x[0])}")
        mask = trial.mask
        if mask is None:
            lines.append("print(module(x))")
        else:
            lines += [f"mask = {_literal(mask)}", "print(module(x, mask))"]
    lines += [f"# expected {name}: {_rounded(t)}" for name, t in _expected(trial)]
    return "\n".join(lines)


def _expected(trial: Trial) -> list[tuple[str, Tensor]]:
    outputs = trial.expected.outputs
    if not trial.instance.batched:
        outputs = tuple(output[0] for output in outputs)
    return list(zip(trial.names, outputs, strict=True))


def _build(contract: Contract, case: Case) -> list[str]:
    lines, arguments = [], []
    for name, value in contract.arguments_for(case).items():
        if isinstance(value, dict):
            pairs = ", ".join(f"{k}={v!r}" for k, v in value.items())
            lines += ["from types import SimpleNamespace", f"config = SimpleNamespace({pairs})"]
            arguments.append("config")
        else:
            arguments.append(f"{name}={value!r}")
    return [*lines, f"module = {contract.name}({', '.join(arguments)}).double().eval()"]


def _set(path: str, tensor: Tensor) -> str:
    steps = "".join(f"[{p}]" if p.isdigit() else f".{p}" for p in path.split("."))
    return f"module{steps}.data = {_literal(tensor)}"


def _call_function(trial: Trial) -> list[str]:
    trial.instance.set(trial.parameters)
    given = zip(trial.contract.call, trial.instance.inputs(trial.x, None), strict=True)
    lines = [f"{name} = {_literal(tensor)}" for name, tensor in given]
    return [*lines, f"print({trial.contract.name}({', '.join(trial.contract.call)}))"]


def _literal(tensor: Tensor) -> str:
    dtype = str(tensor.dtype)
    if tensor.numel() == 0:
        return f"torch.zeros({tuple(tensor.shape)}, dtype={dtype})"
    return f"torch.tensor({tensor.tolist()}, dtype={dtype})"


def _rounded(tensor: Tensor) -> str:
    return str(torch.round(tensor, decimals=6).tolist())
