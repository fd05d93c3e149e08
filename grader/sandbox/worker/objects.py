"""The objects made from a submission: they are built, described, changed and copied on request.

Each method carries out the operation of its name (`grader/sandbox/operations.py`) on an object that
is referred to by its handle.
"""

import copy
import pickle
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headcheck.grader.sandbox.operations import (
    Answer,
    DescribedTensor,
    HandleReply,
    NoReply,
    ValueReply,
)
from headcheck.grader.sandbox.wire import label_by_name, label_by_position
from headcheck.grader.sandbox.worker import attribute_paths, moving
from headcheck.grader.sandbox.worker.batch import Meta, Tensors
from headcheck.grader.sandbox.worker.call_environment import fill_new_memory, seed, watch_settings
from headcheck.grader.sandbox.worker.call_hooks import CallHooks
from headcheck.grader.sandbox.worker.calling import (
    Refused,
    call_by_name_or_position,
    extract_tensors,
    has_changed,
    list_replaced,
    make_sendable,
)
from headcheck.grader.sandbox.worker.configs import MAKER, Config, is_config, make_config
from headcheck.grader.sandbox.worker.second_device import get_cpu_tensor

KEPT_RESULTS = 3
"""how many results of an object are kept, to check whether a later call changes them"""
DRAWN = 4
"""how many random numbers are drawn after an object is constructed"""
EMPTY: dict[str | None, Callable[[], Any]] = {"tuple": tuple, "dict": dict}
"""what makes empty caches that are no objects of a class"""
WRITERS = {
    None: attribute_paths.put,
    "parameters": attribute_paths.exchange,
    "layers": attribute_paths.exchange_layer,
}
"""the functions that write tensors, by what is exchanged"""


@dataclass(eq=False)
class MadeObject:
    """An object, how to make another one, and what it was given and has returned."""

    target: Any
    make: Callable[..., Any]
    configs: Sequence[tuple[Config, dict[str, Any]]] = ()
    """the configs that it was constructed with, each with a copy of its fields"""
    dtype: torch.dtype | None = None
    """the dtype to which it was converted after its construction"""
    results: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """its last results, each with a copy"""

    def keep_result(self, outputs: Sequence[Tensor]) -> bool:
        """Keep the first output of a call, and return whether an earlier result has changed."""
        changed = any(has_changed(*each) for each in self.results)
        if outputs:
            first = get_cpu_tensor(outputs[0])
            # The first one of all, too: later ones may be equal to what writes over them.
            others = self.results[1:][2 - KEPT_RESULTS :]
            self.results = [*self.results[:1], *others, (first, first.clone())]
        return changed


class ObjectHost:
    """Holds the objects made from a submission."""

    def __init__(self, namespace: dict[str, Any] | None = None) -> None:
        self.namespace: dict[str, Any] = (
            {"__name__": "submission"} if namespace is None else namespace
        )
        self.objects: dict[int, MadeObject] = {}
        self.made = 0
        """how many objects were made so far"""
        self.silenced: tuple[str, ...] = ()
        """the paths of parameters that are zero in every constructed module"""
        self.disturbed: set[str] = set()
        """the settings of torch that the submission has changed"""
        self.settings_watch = watch_settings(self.disturbed)

    def construct(self, meta: Meta, tensors: Tensors) -> Answer[HandleReply]:
        """Construct an instance of a class, or have a function make a module, and move it."""
        maker = self._look_up(meta["name"])
        given, form = meta.get("given", "by name"), meta.get("form")
        with watch_settings(self.disturbed):  # a config of the submission's own may compute
            arguments = {n: self._make_argument(v, given) for n, v in meta["arguments"].items()}

        def make(maker: Callable[..., Any] = maker) -> Any:
            own = {name: self._make_given(value) for name, value in arguments.items()}
            by_position = given == "by position"
            made = maker(*own.values()) if by_position else call_by_name_or_position(maker, own)
            if form is not None and isinstance(made, nn.Module):
                CallHooks(**form, make_cache=self._find_maker(form)).attach(made)
            return made

        seed(meta.get("seed"))
        configs = [(c, dict(vars(c))) for c in arguments.values() if isinstance(c, Config)]
        with watch_settings(self.disturbed):
            instance = make()
            attribute_paths.silence(instance, self.silenced)
        if not callable(instance):
            kind = type(instance).__name__
            raise Refused(f"`{meta['name']}` gives a {kind}, which is no module")
        handle = self._keep(instance, make)
        self.objects[handle].configs = configs
        try:
            moving.move(instance, meta.get("device"), moving.parse_dtype(meta.get("dtype")))
        except BaseException:
            self.drop({"handles": [handle]}, {})
            raise
        return HandleReply(handle), ()

    def _make_argument(self, value: Any, given: str) -> Any:
        """Return an argument as it was before it was sent."""
        if is_config(value):
            return self._make_config(value, given)
        return tuple(value) if isinstance(value, list) else value

    def _make_config(self, values: dict[str, Any], given: str) -> Config:
        return make_config(values, given, {})

    def draw_after_construction(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Draw random numbers after an instance was constructed."""
        made, _ = self.construct(meta, tensors)
        self.drop({"handles": [made.handle]}, {})
        others = [random.random()]
        if "numpy" in sys.modules:
            others.append(float(sys.modules["numpy"].random.rand()))
        drawn = torch.cat([torch.rand(DRAWN, dtype=torch.float64), torch.tensor(others).double()])
        return NoReply(), label_by_position([drawn])

    def list_unset(self, meta: Meta, tensors: Tensors) -> Answer[ValueReply[list[str]]]:
        """List the parameters of a new instance that have not been initialised."""
        with fill_new_memory():
            made, _ = self.construct(meta, tensors)
        built = self.objects[made.handle].target
        named = nn.Module.named_parameters(built) if isinstance(built, nn.Module) else ()
        unset = [name for name, parameter in named if bool(parameter.isnan().any())]
        self.drop({"handles": [made.handle]}, {})
        return ValueReply(unset), ()

    def get_function(self, meta: Meta, tensors: Tensors) -> Answer[HandleReply]:
        """Return a handle of a function of tensors, which is then called like a module."""
        function = self._look_up(meta["name"])
        if meta.get("form") is not None:
            function = CallHooks(**meta["form"]).wrap(function)
        return HandleReply(self._keep(function, lambda: function)), ()

    def describe_tensors(
        self, meta: Meta, tensors: Tensors
    ) -> Answer[ValueReply[dict[str, DescribedTensor]]]:
        """Describe the registered parameters and buffers, without their values.

        With `unregistered`, also describe other tensors that the module holds.
        """
        target = self._get(meta)
        found = attribute_paths.describe_registered(target)
        if meta.get("unregistered"):
            found = {**attribute_paths.describe_unregistered(target), **found}
        return ValueReply(found), ()

    def fetch(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Return the tensors that exist at these paths; if these are None, all registered ones.

        A complex tensor, such as a table of rotary embeddings, is sent as pairs of real numbers.
        """
        target, paths = self._get(meta), meta["paths"]
        if paths is None:
            paths = attribute_paths.describe_registered(target)
        found = {path: attribute_paths.find(target, path) for path in paths}
        real = {
            path: torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
            for path, t in found.items()
            if t is not None
        }
        return NoReply(), label_by_name({path: make_sendable(t) for path, t in real.items()})

    def write(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Set the values of the tensors at these paths."""
        target = self._get(meta)
        device = torch.device(meta.get("device") or "cpu")
        set_tensor = WRITERS[meta.get("exchange")]
        for path, tensor in tensors.items():
            set_tensor(target, path, tensor.to(device))
        return NoReply(), ()

    def restore(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Load the module's own state dict, updated with these entries."""
        target = self._get(meta)
        entries = {name: tensor.to(meta["device"]) for name, tensor in tensors.items()}
        target.load_state_dict({**target.state_dict(), **entries})
        return NoReply(), ()

    def move(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Move an object to a dtype, a device, or both."""
        made, dtype = self.objects[meta["handle"]], moving.parse_dtype(meta["dtype"])
        moving.move(made.target, meta["device"], dtype)
        made.dtype = dtype or made.dtype
        return NoReply(), ()

    def copy(self, meta: Meta, tensors: Tensors) -> Answer[HandleReply]:
        """Make another object with the same state."""
        made = self.objects[meta["handle"]]
        old, make = made.target, made.make
        match meta["way"]:
            case "deepcopy":
                new = copy.deepcopy(old)
            case "pickle":
                new = pickle.loads(pickle.dumps(old))
            case way:
                new = moving.build_another(old, make, way)
        attribute_paths.keep_zero(new, self.silenced)
        return HandleReply(self._keep(new, make)), ()

    def nest(self, meta: Meta, tensors: Tensors) -> Answer[HandleReply]:
        """Make an object a submodule of another module, which passes calls on to it."""
        child = self._get(meta)
        return HandleReply(self._keep(Parent(child), lambda: Parent(child))), ()

    def pair(self, meta: Meta, tensors: Tensors) -> Answer[HandleReply]:
        """Make two objects the submodules of a module that calls both."""
        both = [self.objects[handle].target for handle in meta["handles"]]
        return HandleReply(self._keep(Twins(both), lambda: Twins(both))), ()

    def list_replaced(self, meta: Meta, tensors: Tensors) -> Answer[ValueReply[list[str]]]:
        """List the methods that replace a module's parameters with other objects."""
        return ValueReply(list_replaced(self._get(meta))), ()

    def list_modes(self, meta: Meta, tensors: Tensors) -> Answer[ValueReply[list[bool]]]:
        """Say of a module and of each of its parts whether it is in training mode."""
        return ValueReply([m.training for m in self._get(meta).modules()]), ()

    def list_disturbed(self, meta: Meta, tensors: Tensors) -> Answer[ValueReply[list[str]]]:
        """List the settings of torch that the submission has changed so far."""
        return ValueReply(sorted(self.disturbed)), ()

    def drop(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Forget objects."""
        for handle in meta["handles"]:
            self.objects.pop(handle, None)
        return NoReply(), ()

    def _find_maker(self, form: Mapping[str, Any]) -> Callable[..., Any] | None:
        """Return what makes an empty cache, if a call form names it."""
        name = (form["cache"] or {}).get("made_by")
        if name is None or name in EMPTY:
            return EMPTY.get(name)
        maker: Callable[..., Any] = self._look_up(name)
        return maker

    def _make_given(self, value: Any) -> Any:
        """Return what a constructor is given: an object of the submission is made for each."""
        if not isinstance(value, dict):
            return value
        taken = {name: each for name, each in value.items() if name != MAKER}
        maker = self._look_up(value[MAKER])
        return maker(**taken) if isinstance(maker, type) else maker

    def _look_up(self, name: str) -> Any:
        if name not in self.namespace:
            raise Refused(f"`{name}` is not defined")
        return self.namespace[name]

    def _get(self, meta: Meta) -> Any:
        return self.objects[meta["handle"]].target

    def _keep(self, target: Any, make: Callable[..., Any]) -> int:
        self.made += 1
        self.objects[self.made] = MadeObject(target, make)
        return self.made


class Parent(nn.Module):
    """A module that contains a submission's module."""

    def __init__(self, child: nn.Module) -> None:
        super().__init__()
        self.child = child

    def forward(self, *inputs: Tensor) -> Any:
        return self.child(*inputs)


class Twins(nn.ModuleList):
    """Two modules that are called one after the other."""

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        return [tensor for module in self for tensor in extract_tensors(module(*inputs))[:1]]
