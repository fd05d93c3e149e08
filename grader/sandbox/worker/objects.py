"""The objects made from a submission: they are built, called, trained and copied on request.

Each method carries out the operation of its name (`grader/sandbox/operations.py`) on an object that
is referred to by its handle.
"""

import copy
import pickle
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from headcheck.grader.sandbox.operations import (
    AlteredReply,
    Answer,
    DecodeReply,
    ForwardReply,
    GradientsReply,
    HandleReply,
    ModesReply,
    NamesReply,
    NoReply,
    OutputsReply,
    TensorsReply,
)
from headcheck.grader.sandbox.wire import label_by_name, label_by_position
from headcheck.grader.sandbox.worker import attribute_paths, decoding, learning, moving
from headcheck.grader.sandbox.worker.batch import Meta, Tensors
from headcheck.grader.sandbox.worker.call_environment import (
    GRADIENT_MODES,
    advance,
    fill_new_memory,
    get_random_state,
    seed,
    watch_attention_calls,
    watch_settings,
)
from headcheck.grader.sandbox.worker.call_hooks import CallHooks
from headcheck.grader.sandbox.worker.calling import (
    Refused,
    apply_memory_layouts,
    call_by_name_or_position,
    call_twice,
    call_with_overwritten_results,
    describe_dtypes_and_devices,
    describe_result,
    extract_tensors,
    list_alterations,
    list_breaches,
    list_replaced,
    make_sendable,
    set_training,
    snapshot_state,
)
from headcheck.grader.sandbox.worker.compounds import Parent, Twins
from headcheck.grader.sandbox.worker.configs import MAKER, Config, is_config, make_config
from headcheck.grader.sandbox.worker.held import count_held
from headcheck.grader.sandbox.worker.left_behind import UnmovedTracker
from headcheck.grader.sandbox.worker.made_object import MadeObject
from headcheck.grader.sandbox.worker.transforms import WAYS

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


def _split_inputs(meta: Meta) -> dict[str, int]:
    """Return, for a call form, how many of the inputs are tokens; an empty dict if only one is."""
    return {"apart": meta["apart"]} if meta.get("apart", 1) > 1 else {}


def _list_call_options(meta: Meta) -> dict[str, Any]:
    """Return the options of a call form other than the inputs; an empty dict for a usual call."""
    manner = meta.get("manner", "usual")
    plain = manner in ("usual", "in training")
    return {**_split_inputs(meta), **({} if plain else {"manner": manner})}


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

    def list_unset(self, meta: Meta, tensors: Tensors) -> Answer[NamesReply]:
        """List the parameters of a new instance that have not been initialised."""
        with fill_new_memory():
            made, _ = self.construct(meta, tensors)
        built = self.objects[made.handle].target
        named = nn.Module.named_parameters(built) if isinstance(built, nn.Module) else ()
        unset = [name for name, parameter in named if bool(parameter.isnan().any())]
        self.drop({"handles": [made.handle]}, {})
        return NamesReply(unset), ()

    def get_function(self, meta: Meta, tensors: Tensors) -> Answer[HandleReply]:
        """Return a handle of a function of tensors, which is then called like a module."""
        function = self._look_up(meta["name"])
        if meta.get("form") is not None:
            function = CallHooks(**meta["form"]).wrap(function)
        return HandleReply(self._keep(function, lambda: function)), ()

    def call(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Call a function on modules, for its effect on them."""
        with torch.enable_grad():
            self._look_up(meta["name"])(
                *(self.objects[handle].target for handle in meta["handles"])
            )
        return NoReply(), ()

    def make(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Call a function, a method or an object of a class with arguments by name; send tensors.

        A method gets an instance that was not initialised. Complex numbers are sent as pairs.
        """
        owner, _, name = meta["name"].rpartition(".")
        kind = self._look_up(owner) if owner else None
        function = getattr(object.__new__(kind), name) if kind else self._look_up(name)
        if meta["constructor"] is not None:
            function = function(**meta["constructor"])
        dtypes = {name: moving.parse_dtype("float64") for name in meta["dtypes"]}
        with torch.no_grad():
            made = extract_tensors(function(**meta["arguments"], **dtypes, **tensors))
        real = (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in made)
        return NoReply(), label_by_position(make_sendable(tensor) for tensor in real)

    def describe_tensors(self, meta: Meta, tensors: Tensors) -> Answer[TensorsReply]:
        """Describe the registered parameters and buffers, without their values.

        With `unregistered`, also describe other tensors that the module holds.
        """
        target = self._get(meta)
        found = attribute_paths.describe_registered(target)
        if meta.get("unregistered"):
            found = {**attribute_paths.describe_unregistered(target), **found}
        return TensorsReply(found), ()

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

    def forward(self, meta: Meta, tensors: Tensors) -> Answer[ForwardReply]:
        """Call an object; report its outputs, its side effects and all other observations."""
        made = self.objects[meta["handle"]]
        inputs = [moving.send_input(tensor, meta["device"]) for tensor in tensors.values()]
        inputs = apply_memory_layouts(inputs, meta["memory"])
        set_training(made.target, meta["training"])
        unmoved = UnmovedTracker(made.target, self.namespace)
        seed(meta["seed"])
        advance(meta["seed"])
        before = get_random_state() if meta["seed"] is None else ()
        snapshots = [snapshot_state(tensor) for tensor in inputs]
        tracking = moving.track_call(unmoved, meta["device"], made.dtype)
        with (
            GRADIENT_MODES[meta["grad"]](),
            watch_attention_calls(meta["watched"]) as called,
            count_held(meta.get("counted", False), inputs) as held,
            tracking,
            watch_settings(self.disturbed),
        ):
            for _ in range(meta["times"]):
                result = made.target(*inputs, **_list_call_options(meta))
        outputs = extract_tensors(result)
        observed = ForwardReply(
            *describe_dtypes_and_devices(outputs),
            form=describe_result(result),
            random_state_moved=meta["seed"] is None and before != get_random_state(),
            training_after=bool(getattr(made.target, "training", meta["training"])),
            earlier_result_changed=made.keep_result(outputs),
            config_changed=made.has_changed_config(),
            called=tuple(sorted(called)),
            held=held.most,
            altered=tuple(list_alterations(snapshots, inputs)),
            unmoved=tuple(unmoved.messages),
        )
        return observed, label_by_position(make_sendable(t) for t in (*outputs, *inputs))

    def evaluate(self, meta: Meta, tensors: Tensors) -> Answer[OutputsReply]:
        """Call an object once in evaluation mode, and return only its outputs."""
        target = self._get(meta)
        inputs = [tensor.to(meta["device"]) for tensor in tensors.values()]
        inputs = apply_memory_layouts(inputs, meta["memory"])
        set_training(target, False)
        with torch.no_grad():
            outputs = extract_tensors(target(*inputs))
        reply = OutputsReply(*describe_dtypes_and_devices(outputs))
        return reply, label_by_position(make_sendable(t) for t in outputs)

    def refill(self, meta: Meta, tensors: Tensors) -> Answer[AlteredReply]:
        """Call an object with tensors, then with other values in the same tensors or memory."""
        target = self._get(meta)
        inputs = [tensor.to(meta["device"]) for tensor in tensors.values()]
        half = len(inputs) // 2
        with GRADIENT_MODES[meta["grad"]]():
            outputs = call_twice(target, inputs[:half], inputs[half:], meta["reuse"])
        return AlteredReply(), label_by_position(make_sendable(t) for t in outputs)

    def decode(self, meta: Meta, tensors: Tensors) -> Answer[DecodeReply]:
        """Call an object for chunks of sequences, each with the cache of the one before it."""
        given = {name: tensor.to(meta["device"]) for name, tensor in tensors.items()}
        target = self._get(meta)
        options = _list_call_options(meta)
        training = meta["manner"] == "in training"
        decoded = decoding.decode(
            target, meta["after"], given, meta["counted"], options, training=training
        )
        said = DecodeReply(
            tuple(each.form for each in decoded),
            tuple(each.held for each in decoded),
            tuple(each.kept for each in decoded),
        )
        return said, label_by_position(make_sendable(each.output) for each in decoded)

    def overwrite_results(self, meta: Meta, tensors: Tensors) -> Answer[AlteredReply]:
        """Call an object, overwrite its results, and call it again."""
        target = self._get(meta)
        inputs = [tensor.to(meta["device"]) for tensor in tensors.values()]
        outputs, altered = call_with_overwritten_results(target, inputs)
        return AlteredReply(tuple(altered)), label_by_position(make_sendable(t) for t in outputs)

    def call_within(self, meta: Meta, tensors: Tensors) -> Answer[AlteredReply]:
        """Call an object within one of torch's transforms, in evaluation mode."""
        given = {name: tensor.to(meta["device"]) for name, tensor in tensors.items()}
        weights = {path: given.pop(path) for path in meta["paths"]}
        target = self._get(meta)
        set_training(target, False)
        with torch.no_grad():
            outputs = extract_tensors(WAYS[meta["way"]](target, list(given.values()), weights))
        return AlteredReply(), label_by_position(make_sendable(t) for t in outputs)

    def compute_vjp(self, meta: Meta, tensors: Tensors) -> Answer[GradientsReply]:
        """Compute the gradients of sum(output * cotangent) for the inputs and at the paths."""
        target = self._get(meta)
        counts, gradients = learning.compute_vjp(target, meta, tensors, _split_inputs(meta))
        return GradientsReply(**counts), label_by_name(gradients)

    def run_series(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Call an object several times without reseeding, and train it between the calls."""
        target, paths = self._get(meta), meta["paths"]
        found = learning.run_series(target, paths, tensors, meta["passes"], meta["device"])
        return NoReply(), label_by_name(found)

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

    def list_breaches(self, meta: Meta, tensors: Tensors) -> Answer[NamesReply]:
        """List the ways in which a module breaks the rules that every nn.Module must follow."""
        inputs = [tensor.to(meta["device"]) for tensor in tensors.values()]
        return NamesReply(list_breaches(self._get(meta), inputs)), ()

    def list_replaced(self, meta: Meta, tensors: Tensors) -> Answer[NamesReply]:
        """List the methods that replace a module's parameters with other objects."""
        return NamesReply(list_replaced(self._get(meta))), ()

    def prepare(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Freeze or unfreeze a module, give it gradients, and set its mode."""
        how = {"trainable": meta["trainable"], "training": meta["training"]}
        learning.prepare(self._get(meta), **how)
        return NoReply(), ()

    def list_modes(self, meta: Meta, tensors: Tensors) -> Answer[ModesReply]:
        """List the modes of a module and of its parts."""
        return ModesReply([m.training for m in self._get(meta).modules()]), ()

    def list_disturbed(self, meta: Meta, tensors: Tensors) -> Answer[NamesReply]:
        """List the settings of torch that the submission has changed so far."""
        return NamesReply(sorted(self.disturbed)), ()

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
