"""The worker runtime: the submission's side of the boundary.

It holds the submission's namespace and the objects made from it, and answers requests: read, units,
load, landmarks, excerpts, construct, function, call, tensors, fetch, write, forward, answer,
refill, vjp, descend, restore, move, copy, drop; or a series of them at once. It decides nothing. In
a sandbox it is reached over a socket; trusted code may run in the grader process
(`grader.sandbox.grader_side.subject`). It imports none of the packages with answers.
"""

import copy
import sys
import types
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from grader.reading.cells import SubmissionSource, Unreadable, read_source
from grader.reading.code_patterns import find_code_patterns
from grader.reading.excerpts import extract_excerpts
from grader.reading.outline import find_warnings, list_definitions
from grader.reading.slicing import Position, compute_union_slice, locate_error
from grader.reading.token_units import extract_units
from grader.sandbox.wire import Message, label_by_name, label_by_position
from grader.sandbox.worker import attribute_paths, learning, moving
from grader.sandbox.worker.batch import Meta, Reply, Tensors, run_batch
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
    """The submission lacks the requested object; the message is for its author."""


class Config(types.SimpleNamespace):
    """The config object of exercises whose constructor takes one."""


class WorkerRuntime:
    """Answers requests about one submission."""

    def __init__(self, namespace: dict[str, Any] | None = None) -> None:
        self.source = SubmissionSource(())
        fresh = {"__name__": "submission"}
        self.namespace: dict[str, Any] = fresh if namespace is None else namespace
        self.by_hand = False
        """whether torch's built-in attention is forbidden"""
        self.failed_names: dict[str | None, BaseException] = {}
        """names that loading failed to bind, with the errors"""
        self.objects: dict[int, Any] = {}
        self.factories: dict[int, Callable[[], Any]] = {}
        self.last_outputs: dict[int, tuple[Tensor, Tensor]] = {}
        self.configs: dict[int, list[tuple[Config, dict[str, Any]]]] = {}
        self.converted_dtypes: dict[int, torch.dtype] = {}
        """the dtypes of objects that were converted after their construction"""

    def answer(self, request: Message) -> Message:
        """Answer one request; an exception of the submission becomes a reply of its own."""
        try:
            with suppress_output(), isolate_random_state(), forbid_builtin_attention(self.by_hand):
                meta, tensors = self._dispatch(request.op, request.meta, dict(request.tensors))
            return Message(request.id, "ok", meta, tensors)
        except (Exception, SystemExit, GeneratorExit) as error:
            cause = self._find_cause(error)
            return Message(request.id, "raised", describe_error(cause, self.locate(cause)))

    def _dispatch(self, op: str, meta: Meta, tensors: Tensors) -> Reply:
        operations: dict[str, Callable[[Meta, Tensors], Reply]] = {
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
        """Return the earlier error that left a name unbound, if a NameError results from it."""
        if type(error) is NameError and error.name in self.failed_names:
            return self.failed_names[error.name]
        return error

    def locate(self, error: BaseException) -> Position | None:
        """Return the position in the submission at which an error was raised, if it is known."""
        return locate_error(error)

    def read(self, meta: Meta, tensors: Tensors) -> Reply:
        """Read the source without running any of it, and describe its definitions."""
        self.source = read_source(tensors["source"].numpy().tobytes(), meta["kind"])
        broken = [
            {"cell": cell.number, "line": cell.error.line, "message": cell.error.message}
            for cell in self.source.cells
            if cell.error is not None
        ]
        defined = [asdict(definition) for definition in list_definitions(self.source)]
        return {"outline": {"definitions": defined, "broken": broken}}, ()

    def extract_units(self, meta: Meta, tensors: Tensors) -> Reply:
        """Tokenise the source, for comparison with other submissions."""
        return {"units": [asdict(unit) for unit in extract_units(self.source)]}, ()

    def load(self, meta: Meta, tensors: Tensors) -> Reply:
        """Run the statements in the slices of these names, one by one, in source order."""
        names = list(meta["names"])
        self.by_hand = bool(meta.get("by_hand"))
        warnings = [asdict(warning) for warning in find_warnings(self.source, names[0])]
        module = types.ModuleType("submission")
        module.__dict__.update(self.namespace)
        self.namespace = module.__dict__
        sys.modules["submission"] = module
        failure = self._run(names)
        for name in names:
            if name not in self.namespace:
                raise failure or Refused(f"`{name}` is not defined")
        return {"remarks": warnings}, ()

    def find_code_patterns(self, meta: Meta, tensors: Tensors) -> Reply:
        """Find the steps of attention in the code of a definition."""
        patterns = find_code_patterns(self.source, meta["name"])
        return {"landmarks": [asdict(pattern) for pattern in patterns]}, ()

    def extract_excerpts(self, meta: Meta, tensors: Tensors) -> Reply:
        """Extract the lines around positions in the source."""
        excerpts = extract_excerpts(self.source, [(cell, line) for cell, line in meta["places"]])
        return {"excerpts": [asdict(lines) for lines in excerpts]}, ()

    def _run(self, names: list[str]) -> BaseException | None:
        """Run the slices of these names, and return the first error, if there is one."""
        first: BaseException | None = None
        for step in compute_union_slice(self.source, names):
            try:
                exec(step.compile(), self.namespace)
            except (Exception, SystemExit) as error:
                first = first or error
                self.failed_names.update(dict.fromkeys(step.effects.binds, error))
        return first

    def construct(self, meta: Meta, tensors: Tensors) -> Reply:
        """Construct an instance of a class, or a module by a function, and move it."""
        maker = self._look_up(meta["name"])
        arguments = {
            name: Config(**value) if isinstance(value, dict) else value
            for name, value in meta["arguments"].items()
        }

        def make() -> Any:
            return call_by_name_or_position(maker, arguments)

        seed(meta.get("seed"))
        configs = [(c, dict(vars(c))) for c in arguments.values() if isinstance(c, Config)]
        instance = make()
        if not callable(instance):
            kind = type(instance).__name__
            raise Refused(f"`{meta['name']}` gives a {kind}, which is no module")
        handle = self._keep(instance, make)
        self.configs[handle] = configs
        try:
            moving.move(instance, meta.get("device"), moving.parse_dtype(meta.get("dtype")))
        except BaseException:
            self.drop({"handles": [handle]}, {})
            raise
        return {"handle": handle}, ()

    def get_function(self, meta: Meta, tensors: Tensors) -> Reply:
        """Return a handle of a function of tensors, which is then called like a module."""
        function = self._look_up(meta["name"])
        return {"handle": self._keep(function, lambda: function)}, ()

    def call(self, meta: Meta, tensors: Tensors) -> Reply:
        """Call a function on modules, for its effect on them."""
        with torch.enable_grad():
            self._look_up(meta["name"])(*(self.objects[handle] for handle in meta["handles"]))
        return {}, ()

    def describe_tensors(self, meta: Meta, tensors: Tensors) -> Reply:
        """Describe the registered parameters and buffers, without their values."""
        return {"tensors": attribute_paths.describe_registered(self.objects[meta["handle"]])}, ()

    def fetch(self, meta: Meta, tensors: Tensors) -> Reply:
        """Return the tensors that exist at these paths, or all that are registered for None."""
        target, paths = self.objects[meta["handle"]], meta["paths"]
        if paths is None:
            paths = attribute_paths.describe_registered(target)
        found = {path: attribute_paths.find(target, path) for path in paths}
        return {}, label_by_name({p: make_sendable(t) for p, t in found.items() if t is not None})

    def write(self, meta: Meta, tensors: Tensors) -> Reply:
        """Set the values of the tensors at these paths."""
        target = self.objects[meta["handle"]]
        device = torch.device(meta.get("device") or "cpu")
        for path, tensor in tensors.items():
            attribute_paths.put(target, path, tensor.to(device))
        return {}, ()

    def forward(self, meta: Meta, tensors: Tensors) -> Reply:
        """Call an object, and report its outputs, side effects and everything else observable."""
        target = self.objects[meta["handle"]]
        inputs = [moving.send_input(tensor, meta["device"]) for tensor in tensors.values()]
        inputs[0] = apply_memory_layout(inputs[0], meta["memory"])
        set_training(target, meta["training"])
        unmoved = UnmovedTracker(target, self.namespace)
        seed(meta["seed"])
        earlier = self.last_outputs.get(meta["handle"])
        advance(meta["seed"])
        before = get_random_state()
        snapshots = [snapshot_state(tensor) for tensor in inputs]
        sink = sys.stdout
        converted = self.converted_dtypes.get(meta["handle"])
        tracking = moving.track_call(unmoved, meta["device"], converted)
        with (
            GRADIENT_MODES[meta["grad"]](),
            watch_attention_calls(meta["watched"]) as called,
            tracking,
        ):
            for _ in range(meta["times"]):
                result = target(*inputs)
        outputs = extract_tensors(result)
        if outputs:
            self.last_outputs[meta["handle"]] = (first := get_cpu_tensor(outputs[0])), first.clone()
        observed = {
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
            "altered": list_alterations(snapshots, inputs),
            "unmoved": unmoved.messages,
        }
        return observed, label_by_position(make_sendable(t) for t in (*outputs, *inputs))

    def evaluate(self, meta: Meta, tensors: Tensors) -> Reply:
        """Call an object once in evaluation mode, for its outputs alone."""
        target = self.objects[meta["handle"]]
        inputs = [tensor.to(meta["device"]) for tensor in tensors.values()]
        inputs[0] = apply_memory_layout(inputs[0], meta["memory"])
        set_training(target, False)
        with torch.no_grad():
            outputs = extract_tensors(target(*inputs))
        return describe_dtypes_and_devices(outputs), label_by_position(
            make_sendable(t) for t in outputs
        )

    def refill(self, meta: Meta, tensors: Tensors) -> Reply:
        """Call an object twice with the same tensors, which hold other values the second time."""
        target = self.objects[meta["handle"]]
        inputs = [tensor.to(meta["device"]) for tensor in tensors.values()]
        outputs = call_with_refilled_inputs(target, inputs)
        return {}, label_by_position(make_sendable(t) for t in outputs)

    def run_batch(self, meta: Meta, tensors: Tensors) -> Reply:
        """Carry out several requests about each of several objects, and join the replies."""
        inputs = list(tensors.values())
        metas, outputs = run_batch(self._dispatch, meta["constructions"], inputs)
        return {"constructions": metas}, label_by_position(outputs)

    def compute_vjp(self, meta: Meta, tensors: Tensors) -> Reply:
        """Compute the gradients of sum(output * cotangent) for the inputs and at the paths."""
        target = self.objects[meta["handle"]]
        gradients = learning.compute_vjp(target, meta["paths"], tensors, meta["device"])
        return {}, label_by_name(gradients)

    def descend(self, meta: Meta, tensors: Tensors) -> Reply:
        """Take one step of gradient descent."""
        learning.descend(self.objects[meta["handle"]], tensors, meta["device"], meta["rate"])
        return {}, ()

    def restore(self, meta: Meta, tensors: Tensors) -> Reply:
        """Load the module's own state dict, updated by these entries."""
        target = self.objects[meta["handle"]]
        entries = {name: tensor.to(meta["device"]) for name, tensor in tensors.items()}
        target.load_state_dict({**target.state_dict(), **entries})
        return {}, ()

    def move(self, meta: Meta, tensors: Tensors) -> Reply:
        """Move an object to a dtype, a device, or both."""
        handle, dtype = meta["handle"], moving.parse_dtype(meta["dtype"])
        moving.move(self.objects[handle], meta["device"], dtype)
        if dtype is not None:
            self.converted_dtypes[handle] = dtype
        return {}, ()

    def copy(self, meta: Meta, tensors: Tensors) -> Reply:
        """Make another object with the same state."""
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

    def drop(self, meta: Meta, tensors: Tensors) -> Reply:
        """Forget objects."""
        for handle in meta["handles"]:
            self.objects.pop(handle, None)
            self.factories.pop(handle, None)
            self.last_outputs.pop(handle, None)
            self.configs.pop(handle, None)
            self.converted_dtypes.pop(handle, None)
        return {}, ()

    def _look_up(self, name: str) -> Any:
        if name not in self.namespace:
            raise Refused(f"`{name}` is not defined")
        return self.namespace[name]

    def _keep(self, target: Any, make: Callable[[], Any]) -> int:
        handle = len(self.factories) + 1
        while handle in self.objects:
            handle += 1
        self.objects[handle], self.factories[handle] = target, make
        return handle


def describe_error(error: BaseException, position: Position | None = None) -> dict[str, Any]:
    """Describe an exception of the submission in one line, with its position."""
    cell, line = position or (None, None)
    # A lone surrogate could not be sent.
    text = str(error).encode(errors="replace").decode()
    text = " ".join(text.split())[:MESSAGE_LIMIT]
    name = type(error).__name__
    is_ours = isinstance(
        error, Refused | Unreadable | BuiltInAttentionCalled | attribute_paths.NoSuchTensor
    )
    message = text if is_ours else f"{name}: {text}" if text else name
    return {"type": name, "message": message, "cell": cell, "line": line}
