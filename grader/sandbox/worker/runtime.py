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

from grader.reading.cells import Source, Unreadable, read_source
from grader.reading.code_patterns import landmarks
from grader.reading.excerpts import excerpts
from grader.reading.outline import outline, remarks
from grader.reading.slicing import Position, needed_by_all, where
from grader.reading.token_units import units
from grader.sandbox.wire import Message, named, positional
from grader.sandbox.worker import attribute_paths, learning, moving
from grader.sandbox.worker.batch import Reply, carry_out_series
from grader.sandbox.worker.call_environment import (
    GRADIENTS,
    BuiltIn,
    advance,
    by_hand,
    own_random_numbers,
    random_state,
    seed,
    swallowed,
    watching,
)
from grader.sandbox.worker.calling import (
    alterations,
    call_by_name_or_place,
    call_refilled,
    changed,
    form_of,
    kinds_of,
    laid_out,
    sendable,
    set_training,
    state_of,
    tensors_of,
)
from grader.sandbox.worker.left_behind import Unmoved
from grader.sandbox.worker.second_device import numbers_of

MESSAGE_LIMIT = 400


class Refused(Exception):
    """The submission lacks what was asked for; the message is for its author."""


class Config(types.SimpleNamespace):
    """The config object of exercises that ask for one."""


class Host:
    """Answers requests about one submission."""

    def __init__(self, namespace: dict[str, Any] | None = None) -> None:
        self.source = Source(())
        fresh = {"__name__": "submission"}
        self.namespace: dict[str, Any] = fresh if namespace is None else namespace
        self.by_hand = False
        """Whether torch's own attention is out of reach."""
        self.lost: dict[str | None, BaseException] = {}
        """Names that loading did not bind, and why."""
        self.objects: dict[int, Any] = {}
        self.made: dict[int, Callable[[], Any]] = {}
        self.handed_out: dict[int, tuple[Tensor, Tensor]] = {}
        self.configs: dict[int, list[tuple[Config, dict[str, Any]]]] = {}
        self.moved_to: dict[int, torch.dtype] = {}
        """the dtypes of objects that were converted after they had been made"""

    def answer(self, request: Message) -> Message:
        """Carry out one request; whatever the submission raises becomes the reply."""
        try:
            with swallowed(), own_random_numbers(), by_hand(self.by_hand):
                meta, tensors = self._carry_out(request.op, request.meta, dict(request.tensors))
            return Message(request.id, "ok", meta, tensors)
        except (Exception, SystemExit, GeneratorExit) as error:
            cause = self._cause(error)
            return Message(request.id, "raised", report(cause, self.place(cause)))

    def _carry_out(self, op: str, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        operations: dict[str, Callable[[Mapping[str, Any], dict[str, Tensor]], Reply]] = {
            "read": self.read,
            "units": self.units,
            "load": self.load,
            "landmarks": self.landmarks,
            "excerpts": self.excerpts,
            "construct": self.construct,
            "function": self.function,
            "call": self.call,
            "tensors": self.tensors,
            "fetch": self.fetch,
            "write": self.write,
            "forward": self.forward,
            "answer": self.answers,
            "refill": self.refill,
            "series": self.series,
            "vjp": self.vjp,
            "descend": self.descend,
            "restore": self.restore,
            "move": self.move,
            "copy": self.copy,
            "drop": self.drop,
        }
        return operations[op](meta, tensors)

    def _cause(self, error: BaseException) -> BaseException:
        """What went wrong earlier, where an error only says that a name is missing since."""
        if type(error) is NameError and error.name in self.lost:
            return self.lost[error.name]
        return error

    def place(self, error: BaseException) -> Position | None:
        """Where in the submission an error was raised, as far as its frames tell."""
        return where(error)

    def read(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Read the source without running any of it, and say what it defines."""
        self.source = read_source(tensors["source"].numpy().tobytes(), meta["kind"])
        broken = [
            {"cell": cell.number, "line": cell.error.line, "message": cell.error.message}
            for cell in self.source.cells
            if cell.error is not None
        ]
        defined = [asdict(definition) for definition in outline(self.source).definitions]
        return {"outline": {"definitions": defined, "broken": broken}}, ()

    def units(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """What was read as words that stay the same when it is disguised."""
        return {"units": [asdict(unit) for unit in units(self.source)]}, ()

    def load(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Run what the definitions of these names need, statement by statement, in order."""
        names = list(meta["names"])
        self.by_hand = bool(meta.get("by_hand"))
        found = [asdict(remark) for remark in remarks(self.source, names[0])]
        module = types.ModuleType("submission")
        module.__dict__.update(self.namespace)
        self.namespace = module.__dict__
        sys.modules["submission"] = module
        failure = self._run(names)
        for name in names:
            if name not in self.namespace:
                raise failure or Refused(f"`{name}` is not defined")
        return {"remarks": found}, ()

    def landmarks(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Where in the code of a definition the steps of attention are."""
        return {"landmarks": [asdict(mark) for mark in landmarks(self.source, meta["name"])]}, ()

    def excerpts(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """The lines around places in the source."""
        places = [(cell, line) for cell, line in meta["places"]]
        return {"excerpts": [asdict(lines) for lines in excerpts(self.source, places)]}, ()

    def _run(self, names: list[str]) -> BaseException | None:
        """Run the steps that these names need; the first thing that went wrong, if any did."""
        first: BaseException | None = None
        for step in needed_by_all(self.source, names):
            try:
                exec(step.compile(), self.namespace)
            except (Exception, SystemExit) as error:
                first = first or error
                self.lost.update(dict.fromkeys(step.binds, error))
        return first

    def construct(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Build an instance of a class, or a module by a function, and move it."""
        maker = self._named(meta["name"])
        arguments = {
            name: Config(**value) if isinstance(value, dict) else value
            for name, value in meta["arguments"].items()
        }

        def make() -> Any:
            return call_by_name_or_place(maker, arguments)

        seed(meta.get("seed"))
        configs = [(c, dict(vars(c))) for c in arguments.values() if isinstance(c, Config)]
        made = make()
        if not callable(made):
            raise Refused(f"`{meta['name']}` gives a {type(made).__name__}, which is no module")
        handle = self._keep(made, make)
        self.configs[handle] = configs
        try:
            moving.move(made, meta.get("device"), moving.dtype_of(meta.get("dtype")))
        except BaseException:
            self.drop({"handles": [handle]}, {})
            raise
        return {"handle": handle}, ()

    def function(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """A function of tensors, to be called like a module."""
        found = self._named(meta["name"])
        return {"handle": self._keep(found, lambda: found)}, ()

    def call(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Call a function on modules, for what it does to them."""
        with torch.enable_grad():
            self._named(meta["name"])(*(self.objects[handle] for handle in meta["handles"]))
        return {}, ()

    def tensors(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """The registered parameters and buffers, without their numbers."""
        module = attribute_paths.as_module(self.objects[meta["handle"]])
        return {"tensors": {} if module is None else attribute_paths.registered(module)}, ()

    def fetch(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """The numbers at these paths, or of all that is registered; what does not exist is not."""
        target = self.objects[meta["handle"]]
        wanted = meta["paths"]
        if wanted is None:
            wanted = self.tensors(meta, {})[0]["tensors"]
        found = {path: attribute_paths.find(target, path) for path in wanted}
        return {}, named({p: sendable(t) for p, t in found.items() if t is not None})

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
        inputs = [moving.sent_to(tensor, meta["device"]) for tensor in tensors.values()]
        inputs[0] = laid_out(inputs[0], meta["memory"])
        set_training(target, meta["training"])
        unmoved = Unmoved(target, self.namespace)
        seed(meta["seed"])
        earlier = self.handed_out.get(meta["handle"])
        advance(meta["seed"])
        before = random_state()
        given = [state_of(tensor) for tensor in inputs]
        sink = sys.stdout
        converted = self.moved_to.get(meta["handle"])
        followed = moving.following(unmoved, meta["device"], converted)
        with GRADIENTS[meta["grad"]](), watching(meta["watched"]) as called, followed:
            for _ in range(meta["times"]):
                result = target(*inputs)
        outputs = tensors_of(result)
        if outputs:
            self.handed_out[meta["handle"]] = (first := numbers_of(outputs[0])), first.clone()
        seen = {
            "form": form_of(result),
            **kinds_of(outputs),
            "printed": getattr(sink, "written", 0),
            "random_state_moved": meta["seed"] is None and before != random_state(),
            "training_after": bool(getattr(target, "training", meta["training"])),
            "earlier_result_changed": earlier is not None and changed(*earlier),
            "config_changed": any(
                vars(config) != before for config, before in self.configs.get(meta["handle"], ())
            ),
            "called": sorted(called),
            "altered": alterations(given, inputs),
            "unmoved": unmoved.met,
        }
        return seen, positional(sendable(t) for t in (*outputs, *inputs))

    def answers(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Call it once in evaluation mode, for its outputs alone."""
        target = self.objects[meta["handle"]]
        inputs = [tensor.to(meta["device"]) for tensor in tensors.values()]
        inputs[0] = laid_out(inputs[0], meta["memory"])
        set_training(target, False)
        with torch.no_grad():
            outputs = tensors_of(target(*inputs))
        return kinds_of(outputs), positional(sendable(t) for t in outputs)

    def refill(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Call it twice with the same tensor objects, which hold other numbers the second time."""
        target = self.objects[meta["handle"]]
        outputs = call_refilled(target, [t.to(meta["device"]) for t in tensors.values()])
        return {}, positional(sendable(t) for t in outputs)

    def series(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Several requests about each of several objects; the answers among the replies, joined."""
        given = list(tensors.values())
        said, outputs = carry_out_series(self._carry_out, meta["constructions"], given)
        return {"constructions": said}, positional(outputs)

    def vjp(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """The gradients of sum(output * cotangent), of the inputs and of what is at the paths."""
        target = self.objects[meta["handle"]]
        found = learning.vector_jacobian(target, meta["paths"], tensors, meta["device"])
        return {}, named(found)

    def descend(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """One step of gradient descent."""
        learning.descend(self.objects[meta["handle"]], tensors, meta["device"], meta["rate"])
        return {}, ()

    def restore(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Load weights by way of the state dict."""
        there = {name: tensor.to(meta["device"]) for name, tensor in tensors.items()}
        learning.load(self.objects[meta["handle"]], there)
        return {}, ()

    def move(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """`.to(dtype)` and `.to(device)`."""
        handle, dtype = meta["handle"], moving.dtype_of(meta["dtype"])
        moving.move(self.objects[handle], meta["device"], dtype)
        if dtype is not None:
            self.moved_to[handle] = dtype
        return {}, ()

    def copy(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> Reply:
        """Another instance with the same state."""
        handle = meta["handle"]
        old, make = self.objects[handle], self.made[handle]
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
            for kept in (self.objects, self.made, self.handed_out, self.configs, self.moved_to):
                kept.pop(handle, None)
        return {}, ()

    def _named(self, name: str) -> Any:
        if name not in self.namespace:
            raise Refused(f"`{name}` is not defined")
        return self.namespace[name]

    def _keep(self, made: Any, make: Callable[[], Any]) -> int:
        handle = len(self.made) + 1
        while handle in self.objects:
            handle += 1
        self.objects[handle], self.made[handle] = made, make
        return handle


def report(error: BaseException, place: Position | None = None) -> dict[str, Any]:
    """What the submission raised, in one line, and where in its own code."""
    cell, line = place or (None, None)
    # Half of a surrogate pair is no character, and could not be sent.
    text = str(error).encode(errors="replace").decode()
    text = " ".join(text.split())[:MESSAGE_LIMIT]
    name = type(error).__name__
    ours = isinstance(error, Refused | Unreadable | BuiltIn | attribute_paths.NoSuchTensor)
    message = text if ours else f"{name}: {text}" if text else name
    return {"type": name, "message": message, "cell": cell, "line": line}
