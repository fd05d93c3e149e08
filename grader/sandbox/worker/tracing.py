"""Record the operations of one call: what each computes, from what, and on which line.

A mode of torch sees each function that is called on tensors, also inside torch's own modules. Its
results become steps: a kind, a shape, the steps that they are made of, the innermost line of the
submission, and a copy of the values. Nothing here knows what the right values are.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor, nn

from headcheck.grader.reading.cells import SubmissionSource
from headcheck.grader.reading.feeding_lines import (
    find_neighbours,
    find_returns,
    find_setting_lines,
    find_sharing_lines,
)
from headcheck.grader.sandbox.operations import Answer, MadeWeight, TracedStep, TraceReply
from headcheck.grader.sandbox.wire import label_by_position
from headcheck.grader.sandbox.worker.call_hooks import ContinuedResult
from headcheck.grader.sandbox.worker.calling import MAX_OUTPUTS, set_training
from headcheck.grader.sandbox.worker.decoding import fill_cache
from headcheck.grader.sandbox.worker.objects import MadeObject
from headcheck.grader.sandbox.worker.second_device import get_cpu_tensor

MAX_STEPS = 2000
"""the most steps that are recorded"""
MAX_NUMBERS = 1 << 18
"""the most numbers of all steps together whose values are kept: two megabytes"""
MAX_NUMBERS_OF_STEP = 1 << 14
"""the most numbers of a step whose values are kept"""
MAX_KIND = 120
"""the most characters of the name of a function, or of the path of a weight"""
MAX_SHARED = 40
"""the most weights of several paths that are told"""
MAX_DEPTH = 3
"""how deeply tensors may be nested in the arguments of a function"""
MAX_FRAMES = 60
"""how many frames are looked at to find a line of the submission"""
READ = (getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim"))
SHAPES = frozenset({Tensor.size, Tensor.dim, Tensor.numel, *READ})
"""functions that give no numbers of a tensor"""
WRITERS = frozenset({"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__"})

Position = tuple[int | None, int, int | None]
"""a cell, a line, and the outermost line from which the function around it was called"""
LocateLine = Callable[[str | None, int | None], tuple[int | None, int] | None]


class CallRecorder(torch.overrides.TorchFunctionMode):
    """Records the steps of everything that is computed in its context."""

    def __init__(self, locate_line: LocateLine, inputs: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.locate_line = locate_line
        self.steps: list[TracedStep] = []
        self.values: list[Tensor] = []
        self.room = MAX_NUMBERS
        self.last: dict[int, int] = {}
        """the last step of each tensor, by its identity"""
        self.writes: dict[int, int] = {}
        """the last step that wrote into a memory, by its address"""
        self.homes: dict[int, int] = {}
        """the last step of any tensor in a memory, by its address"""
        self.alive: list[Tensor] = []
        """all tensors seen, so that none gives its identity or memory to another"""
        self.named: dict[int, str] = {}
        """the kinds of tensors that were not computed, by their identity"""
        self.shared: list[tuple[tuple[str, str], tuple[str, str]]] = []
        """the paths of weights that have two of them, and what is shared that holds them"""
        self.entry: tuple[int | None, int] | None = None
        """the line on which the function that is called begins"""
        self.files: dict[str, bool] = {}
        for number, tensor in enumerate(inputs):
            self.named[id(tensor)] = f"input {number}"

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        if func in SHAPES or len(self.steps) >= MAX_STEPS:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        given = list_tensors((args, kwargs))
        sources = [self.find_step(tensor) for tensor in given]
        result = func(*args, **kwargs)
        made = list_tensors(result)
        if name == "__setitem__":
            made = [args[0]]
        if name.endswith("_like") or name.startswith("new_"):
            sources = []  # of what it is given, only the shape counts
        if name == "__get__":  # a property, such as T or shape
            name = getattr(getattr(func, "__self__", None), "__name__", name)
        if made:
            self.record(name, made, sources, given, find_line(self.locate_line, self.files))
        return result

    def record(
        self,
        kind: str,
        made: list[Tensor],
        sources: list[int],
        given: list[Tensor],
        position: Position | None,
    ) -> None:
        """Add a step for each tensor that an operation made or wrote into."""
        known = {id(tensor) for tensor in given}
        for tensor in made:
            is_written = id(tensor) in known and (kind in WRITERS or kind.endswith("_"))
            if id(tensor) in known and not is_written:
                continue  # it was passed through, as by contiguous()
            step = self.add(kind, tensor, tuple(dict.fromkeys(sources)), position)
            if is_written:
                self.writes[get_address(tensor)] = step

    def find_step(self, tensor: Tensor) -> int:
        """Return the last step of a tensor; one that was not computed here becomes a step."""
        step = self.last.get(id(tensor))
        if step is None:
            step = self.add_unknown(tensor)
        written = self.writes.get(get_address(tensor), -1)
        if written > step:  # through another tensor with the same memory
            step = self.add("written", tensor, (step, written), get_position(self.steps[written]))
        return step

    def add_unknown(self, tensor: Tensor) -> int:
        """Add a tensor that no function made: a given one, or another name for the same memory."""
        same = self.homes.get(get_address(tensor))
        if id(tensor) in self.named or same is None:
            return self.add(self.named.get(id(tensor), "constant"), tensor, (), None)
        return self.add("alias", tensor, (same,), get_position(self.steps[same]))

    def add(
        self, kind: str, tensor: Tensor, sources: tuple[int, ...], position: Position | None
    ) -> int:
        """Add a step with a copy of the tensor's values, if there is room."""
        self.alive.append(tensor)
        values = copy_values(tensor) if tensor.numel() <= MAX_NUMBERS_OF_STEP else None
        if values is not None and values.numel() > self.room:
            values = None
        if values is not None:
            self.room -= values.numel()
            self.values.append(values)
        cell, line, outer = position or (None, None, None)
        shape = tuple(tensor.shape)
        kept = values is not None
        self.steps.append(TracedStep(kind[:MAX_KIND], shape, sources, cell, line, kept, outer))
        self.last[id(tensor)] = self.homes[get_address(tensor)] = len(self.steps) - 1
        return len(self.steps) - 1


def copy_values(tensor: Tensor) -> Tensor | None:
    """Return a tensor's numbers in one row of float64; None if it has none that can be read."""
    try:
        plain = get_cpu_tensor(tensor).detach()
        if plain.is_complex() or plain.layout is not torch.strided:
            return None
        return plain.to(torch.float64, copy=True).reshape(-1)
    except RuntimeError:
        return None


def get_address(tensor: Tensor) -> int:
    """Return the address of a tensor's memory; 0 if it has none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def list_tensors(given: object, depth: int = MAX_DEPTH) -> list[Tensor]:
    """Return the tensors in arguments or results, in order."""
    if isinstance(given, Tensor):
        return [given]
    if isinstance(given, dict):
        given = tuple(given.values())
    if not depth or not isinstance(given, tuple | list):
        return []
    found: list[Tensor] = []
    for each in given:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, tuple | list | dict):
            found += list_tensors(each, depth - 1)
    return found


def get_position(step: TracedStep) -> Position | None:
    """Return the position of a step."""
    return None if step.line is None else (step.cell, step.line, step.outer)


def find_line(locate_line: LocateLine, files: dict[str, bool]) -> Position | None:
    """Return the innermost line of the submission among the callers, and the outermost."""
    frame: FrameType | None = sys._getframe(2)
    inner: tuple[str, int] | None = None
    outer: int | None = None
    for _ in range(MAX_FRAMES):
        if frame is None:
            break
        file = frame.f_code.co_filename
        if file not in files:
            files[file] = locate_line(file, 1) is not None
        if files[file]:
            inner = inner or (file, frame.f_lineno)
            outer = frame.f_lineno if file == inner[0] else outer
        frame = frame.f_back
    located = None if inner is None else locate_line(*inner)
    if located is None:
        return None
    return (*located, None if outer == located[1] else outer)


def trace(
    made: MadeObject,
    inputs: list[Tensor],
    apart: int,
    locate_line: LocateLine,
    before: Sequence[Tensor] = (),
) -> tuple[CallRecorder, list[Tensor]]:
    """Call an object, and return the record and the tensors that it gave.

    The call may continue a sequence, of which calls for the chunks `before` are not recorded. The
    lines on which a module makes its buffers are found by making another one afterwards.
    """
    target, recorder = made.target, CallRecorder(locate_line, inputs)
    set_training(target, False)
    options = {"apart": apart} if apart > 1 else {}
    if before:
        with torch.no_grad():
            options["cache"] = fill_cache(target, before)
    if isinstance(target, nn.Module):
        recorder.named |= {id(p): f"parameter {n}" for n, p in target.named_parameters()}
        recorder.named |= {id(b): f"buffer {n}" for n, b in target.named_buffers()}
        recorder.shared = [(pair, cut_shared_end(target, *pair)) for pair in list_shared(target)]
    code = getattr(getattr(target, "forward", target), "__code__", None)
    if isinstance(code, CodeType):
        recorder.entry = locate_line(code.co_filename, code.co_firstlineno)
    with torch.no_grad(), recorder:
        result = target(*inputs, **options)
    results = list_tensors(result.outputs if isinstance(result, ContinuedResult) else result)
    if any(step.kind.startswith("buffer ") for step in recorder.steps):
        lines = find_lines_of_buffers(made.make, locate_line)
        recorder.steps = [place_buffer(step, lines) for step in recorder.steps]
    return recorder, results


def list_shared(module: nn.Module) -> list[tuple[str, str]]:
    """Return the paths of parameters that have several, each with the first one."""
    first: dict[int, str] = {}
    every = module.named_parameters(remove_duplicate=False)
    pairs = ((first.setdefault(id(parameter), path), path) for path, parameter in every)
    return [(one, other) for one, other in pairs if one != other][:MAX_SHARED]


def cut_shared_end(module: nn.Module, one: str, other: str) -> tuple[str, str]:
    """Return the shortest paths of which the ends are the same, because a module is shared."""
    while "." in one and "." in other and one.rpartition(".")[2] == other.rpartition(".")[2]:
        owners = one.rpartition(".")[0], other.rpartition(".")[0]
        if module.get_submodule(owners[0]) is not module.get_submodule(owners[1]):
            break
        one, other = owners
    return one, other


def place_buffer(step: TracedStep, lines: Mapping[str, Position]) -> TracedStep:
    """Return the step of a buffer with the line on which it was made."""
    position = lines.get(step.kind.removeprefix("buffer "))
    if position is None or not step.kind.startswith("buffer "):
        return step
    cell, line, outer = position
    return replace(step, cell=cell, line=line, outer=outer)


def find_lines_of_buffers(make: Callable[..., Any], locate_line: LocateLine) -> dict[str, Position]:
    """Return the lines on which a new module's buffers are made, by their paths."""
    recorder = CallRecorder(locate_line)
    recorder.room = 0
    with torch.no_grad(), recorder:
        made = make()
    found: dict[str, Position] = {}
    for name, buffer in made.named_buffers() if isinstance(made, nn.Module) else ():
        step = recorder.last.get(id(buffer))
        if step is not None and (line := recorder.steps[step].line) is not None:
            found[name] = recorder.steps[step].cell, line, None
    return found


def make_reply(
    recorder: CallRecorder, results: list[Tensor], source: SubmissionSource
) -> Answer[TraceReply]:
    """Return what is sent: the steps, the numbers of the returned ones, and all values in a row."""
    returned = tuple(recorder.find_step(tensor) for tensor in results[:MAX_OUTPUTS])
    values = torch.cat(recorder.values) if recorder.values else torch.zeros(0).double()
    steps = tuple(recorder.steps)
    placed = [step for step in steps if step.line is not None]
    positions = {(each.cell, line) for each in placed for line in (each.line, each.outer) if line}
    lines = tuple(find_neighbours(source, positions))
    read = {step.kind.removeprefix("parameter ") for step in steps if step.kind[:9] == "parameter"}
    made = tuple(MadeWeight(path, tuple(find_setting_lines(source, path))) for path in sorted(read))
    shared = tuple(
        MadeWeight(path, tuple(find_sharing_lines(source, ends)))
        for pair, ends in recorder.shared
        for path in pair
    )
    ends = () if recorder.entry is None else tuple(find_returns(source, recorder.entry))
    return TraceReply(steps, returned, lines, ends, made, shared), label_by_position([values])
