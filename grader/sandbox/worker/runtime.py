"""The side of the boundary on which the submission runs.

A host holds the submission's namespace and the objects made from it, and answers requests: read,
units, load, landmarks, excerpts, construct, function, call, tensors, fetch, write, forward, answer,
refill, vjp, descend, restore, move, copy, drop; or a series of them at once. It decides nothing. In
a sandbox it stands behind a socket; for code that is trusted, in the same process
(`grader.sandbox.grader_side.subject`). It imports none of the rooms that know what is right.
"""

import copy
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from grader.reading.cells import SubmissionSource, Unreadable, read_source
from grader.reading.code_patterns import find_code_patterns
from grader.reading.excerpts import extract_excerpts
from grader.reading.outline import build_outline, find_warnings
from grader.reading.slicing import Position, compute_union_slice, locate_error
from grader.reading.token_units import extract_units
from grader.sandbox.wire import Message, label_by_name, label_by_position
from grader.sandbox.worker import attribute_paths, learning, moving
from grader.sandbox.worker.batch import Reply, run_batch
from grader.sandbox.worker.call_environment import (
    GRADIENT_MODES,
    BuiltInAttentionCalled,
    advance,
    forbid_builtin_attention,
    get_random_state,
    isolate_random_state,
    seed,
    suppress_output,
    watch_attention_calls,
)
from grader.sandbox.worker.calling import (
    apply_memory_layout,
    call_by_name_or_position,
    call_with_refilled_inputs,
    describe_dtypes_and_devices,
    describe_result,
    extract_tensors,
    has_changed,
    list_alterations,
    make_sendable,
    set_training,
    snapshot_state,
)
from grader.sandbox.worker.left_behind import UnmovedTracker
from grader.sandbox.worker.second_device import get_cpu_tensor

MESSAGE_LIMIT = 400


class Refused(Exception):
    """The submission lacks what was asked for; the message is for its author."""


class Config(types.SimpleNamespace):
    """The config object of exercises that ask for one."""


class WorkerRuntime:
    """Answers requests about one submission."""

    def __init__(self, namespace: dict[str, Any] | None = None) -> None:
        self.source = SubmissionSource(())
        fresh = {"__name__": "submission"}
        self.namespace: dict[str, Any] = fresh if namespace is None else namespace
        self.by_hand = False
        """Whether torch's own attention is out of reach."""
        self.failed_names: dict[str | None, BaseException] = {}
        """Names that loading did not bind, and why."""
        self.objects: dict[int, Any] = {}
        self.factories: dict[int, Callable[[], Any]] = {}
        self.last_outputs: dict[int, tuple[Tensor, Tensor]] = {}
        self.configs: dict[int, list[tuple[Config, dict[str, Any]]]] = {}
        self.converted_dtypes: dict[int, torch.dtype] = {}
        """the dtypes of objects that were converted after they had been made"""

    def answer(self, request: Message) -> Message:
        """Carry out one request; whatever the submission raises becomes the reply."""
        try:
            with suppress_output(), isolate_random_state(), forbid_builtin_attention(self.by_hand):
                meta, tensors = self._dispatch(request.op, request.meta, dict(request.tensors))
            return Message(request.id, "ok", meta, tensors)
        except (Exception, SystemExit, GeneratorExit) as error:
            cause = self._find_cause(error)
            return Message(request.id, "raised", describe_error(cause, self.locate(cause)))

    def _dispatch(self, op: str, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        operations: dict[str, Callable[[Mapping[str, Any], dict[str, Tensor]], Reply]] = {
            "read": self.read,
            "units": self.extract_units,
            "load": self.load,
            "landmarks": self.find_code_patterns,
            "excerpts": self.extract_excerpts,
            "construct": self.construct,
            "function": self.get_function,
            "call": self.call,
            "tensors": self.describe_tensors,
            "fetch": self.fetch,
            "write": self.write,
            "forward": self.forward,
            "answer": self.evaluate,
            "refill": self.refill,
            "series": self.run_batch,
            "vjp": self.compute_vjp,
            "descend": self.descend,
            "restore": self.restore,
            "move": self.move,
            "copy": self.copy,
            "drop": self.drop,
        }
        return operations[op](meta, tensors)

    def _find_cause(self, error: BaseException) -> BaseException:
        """What went wrong earlier, where an error only says that a name is missing since."""
        if type(error) is NameError and error.name in self.failed_names:
            return self.failed_names[error.name]
        return error

    def locate(self, error: BaseException) -> Position | None:
        """Where in the submission an error was raised, as far as its frames tell."""
        return locate_error(error)

    def read(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Read the source without running any of it, and say what it defines."""
        self.source = read_source(tensors["source"].numpy().tobytes(), meta["kind"])
        broken = [
            {"cell": cell.number, "line": cell.error.line, "message": cell.error.message}
            for cell in self.source.cells
            if cell.error is not None
        ]
        defined = [asdict(definition) for definition in build_outline(self.source).definitions]
        return {"outline": {"definitions": defined, "broken": broken}}, ()

    def extract_units(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """What was read as words that stay the same when it is disguised."""
        return {"units": [asdict(unit) for unit in extract_units(self.source)]}, ()

    def load(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Run what the definitions of these names need, statement by statement, in order."""
        names = list(meta["names"])
        self.by_hand = bool(meta.get("by_hand"))
        found = [asdict(remark) for remark in find_warnings(self.source, names[0])]
        module = types.ModuleType("submission")
        module.__dict__.update(self.namespace)
        self.namespace = module.__dict__
        sys.modules["submission"] = module
        failure = self._run(names)
        for name in names:
            if name not in self.namespace:
                raise failure or Refused(f"`{name}` is not defined")
        return {"remarks": found}, ()

    def find_code_patterns(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Where in the code of a definition the steps of attention are."""
        return {
            "landmarks": [asdict(mark) for mark in find_code_patterns(self.source, meta["name"])]
        }, ()

    def extract_excerpts(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """The lines around places in the source."""
        places = [(cell, line) for cell, line in meta["places"]]
        return {"excerpts": [asdict(lines) for lines in extract_excerpts(self.source, places)]}, ()

    def _run(self, names: list[str]) -> BaseException | None:
        """Run the steps that these names need; the first thing that went wrong, if any did."""
        first: BaseException | None = None
        for step in compute_union_slice(self.source, names):
            try:
                exec(step.compile(), self.namespace)
            except (Exception, SystemExit) as error:
                first = first or error
                self.failed_names.update(dict.fromkeys(step.binds, error))
        return first

    def construct(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Build an instance of a class, or a module by a function, and move it."""
        maker = self._look_up(meta["name"])
        arguments = {
            name: Config(**value) if isinstance(value, dict) else value
            for name, value in meta["arguments"].items()
        }

        def make() -> Any:
            return call_by_name_or_position(maker, arguments)

        seed(meta.get("seed"))
        configs = [(c, dict(vars(c))) for c in arguments.values() if isinstance(c, Config)]
        made = make()
        if not callable(made):
            raise Refused(f"`{meta['name']}` gives a {type(made).__name__}, which is no module")
        handle = self._keep(made, make)
        self.configs[handle] = configs
        try:
            moving.move(made, meta.get("device"), moving.parse_dtype(meta.get("dtype")))
        except BaseException:
            self.drop({"handles": [handle]}, {})
            raise
        return {"handle": handle}, ()

    def get_function(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """A function of tensors, to be called like a module."""
        found = self._look_up(meta["name"])
        return {"handle": self._keep(found, lambda: found)}, ()

    def call(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Call a function on modules, for what it does to them."""
        with torch.enable_grad():
            self._look_up(meta["name"])(*(self.objects[handle] for handle in meta["handles"]))
        return {}, ()

    def describe_tensors(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """The registered parameters and buffers, without their numbers."""
        module = attribute_paths.as_module(self.objects[meta["handle"]])
        return {
            "tensors": {} if module is None else attribute_paths.describe_registered(module)
        }, ()

    def fetch(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """The numbers at these paths, or of all that is registered; what does not exist is not."""
        target = self.objects[meta["handle"]]
        wanted = meta["paths"]
        if wanted is None:
            wanted = self.describe_tensors(meta, {})[0]["tensors"]
        found = {path: attribute_paths.find(target, path) for path in wanted}
        return {}, label_by_name({p: make_sendable(t) for p, t in found.items() if t is not None})

    def write(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Set the numbers at these paths."""
        target = self.objects[meta["handle"]]
        device = torch.device(meta.get("device") or "cpu")
        for path, tensor in tensors.items():
            attribute_paths.put(target, path, tensor.to(device))
        return {}, ()

    def forward(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Call it once, and say what came back and what else could be seen."""
        target = self.objects[meta["handle"]]
        inputs = [moving.send_input(tensor, meta["device"]) for tensor in tensors.values()]
        inputs[0] = apply_memory_layout(inputs[0], meta["memory"])
        set_training(target, meta["training"])
        unmoved = UnmovedTracker(target, self.namespace)
        seed(meta["seed"])
        earlier = self.last_outputs.get(meta["handle"])
        advance(meta["seed"])
        before = get_random_state()
        given = [snapshot_state(tensor) for tensor in inputs]
        sink = sys.stdout
        converted = self.converted_dtypes.get(meta["handle"])
        followed = moving.track_call(unmoved, meta["device"], converted)
        with (
            GRADIENT_MODES[meta["grad"]](),
            watch_attention_calls(meta["watched"]) as called,
            followed,
        ):
            for _ in range(meta["times"]):
                result = target(*inputs)
        outputs = extract_tensors(result)
        if outputs:
            self.last_outputs[meta["handle"]] = (first := get_cpu_tensor(outputs[0])), first.clone()
        seen = {
            "form": describe_result(result),
            **describe_dtypes_and_devices(outputs),
            "printed": getattr(sink, "written", 0),
            "random_state_moved": meta["seed"] is None and before != get_random_state(),
            "training_after": bool(getattr(target, "training", meta["training"])),
            "earlier_result_changed": earlier is not None and has_changed(*earlier),
            "config_changed": any(
                vars(config) != before for config, before in self.configs.get(meta["handle"], ())
            ),
            "called": sorted(called),
            "altered": list_alterations(given, inputs),
            "unmoved": unmoved.messages,
        }
        return seen, label_by_position(make_sendable(t) for t in (*outputs, *inputs))

    def evaluate(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Call it once in evaluation mode, for its outputs alone."""
        target = self.objects[meta["handle"]]
        inputs = [tensor.to(meta["device"]) for tensor in tensors.values()]
        inputs[0] = apply_memory_layout(inputs[0], meta["memory"])
        set_training(target, False)
        with torch.no_grad():
            outputs = extract_tensors(target(*inputs))
        return describe_dtypes_and_devices(outputs), label_by_position(
            make_sendable(t) for t in outputs
        )

    def refill(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Call it twice with the same tensor objects, which hold other numbers the second time."""
        target = self.objects[meta["handle"]]
        outputs = call_with_refilled_inputs(
            target, [t.to(meta["device"]) for t in tensors.values()]
        )
        return {}, label_by_position(make_sendable(t) for t in outputs)

    def run_batch(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Several requests about each of several objects; the answers among the replies, joined."""
        given = list(tensors.values())
        said, outputs = run_batch(self._dispatch, meta["constructions"], given)
        return {"constructions": said}, label_by_position(outputs)

    def compute_vjp(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """The gradients of sum(output * cotangent), of the inputs and of what is at the paths."""
        target = self.objects[meta["handle"]]
        found = learning.compute_vjp(target, meta["paths"], tensors, meta["device"])
        return {}, label_by_name(found)

    def descend(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """One step of gradient descent."""
        learning.descend(self.objects[meta["handle"]], tensors, meta["device"], meta["rate"])
        return {}, ()

    def restore(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Load weights by way of the state dict."""
        there = {name: tensor.to(meta["device"]) for name, tensor in tensors.items()}
        learning.load_weights(self.objects[meta["handle"]], there)
        return {}, ()

    def move(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """`.to(dtype)` and `.to(device)`."""
        handle, dtype = meta["handle"], moving.parse_dtype(meta["dtype"])
        moving.move(self.objects[handle], meta["device"], dtype)
        if dtype is not None:
            self.converted_dtypes[handle] = dtype
        return {}, ()

    def copy(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Another instance with the same state."""
        handle = meta["handle"]
        old, make = self.objects[handle], self.factories[handle]
        if meta["way"] == "deepcopy":
            return {"handle": self._keep(copy.deepcopy(old), make)}, ()
        new = make()
        parameter = next(old.parameters(), None)
        if parameter is not None:
            new.to(dtype=parameter.dtype, device=parameter.device)
        new.load_state_dict(old.state_dict())
        return {"handle": self._keep(new, make)}, ()

    def drop(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Forget objects."""
        for handle in meta["handles"]:
            for kept in (
                self.objects,
                self.factories,
                self.last_outputs,
                self.configs,
                self.converted_dtypes,
            ):
                kept.pop(handle, None)
        return {}, ()

    def _look_up(self, name: str) -> Any:
        if name not in self.namespace:
            raise Refused(f"`{name}` is not defined")
        return self.namespace[name]

    def _keep(self, made: Any, make: Callable[[], Any]) -> int:
        handle = len(self.factories) + 1
        while handle in self.objects:
            handle += 1
        self.objects[handle], self.factories[handle] = made, make
        return handle


def describe_error(error: BaseException, position: Position | None = None) -> dict[str, Any]:
    """What the submission raised, in one line, and where in its own code."""
    cell, line = position or (None, None)
    # Half of a surrogate pair is no character, and could not be sent.
    text = str(error).encode(errors="replace").decode()
    text = " ".join(text.split())[:MESSAGE_LIMIT]
    name = type(error).__name__
    ours = isinstance(
        error, Refused | Unreadable | BuiltInAttentionCalled | attribute_paths.NoSuchTensor
    )
    message = text if ours else f"{name}: {text}" if text else name
    return {"type": name, "message": message, "cell": cell, "line": line}
