"""The objects made from a submission are called and trained on request.

Each method carries out the operation of its name (`grader/sandbox/operations.py`) on an object that
is referred to by its handle.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from headcheck.grader.sandbox.operations import (
    AlteredReply,
    Answer,
    DecodeReply,
    ForwardReply,
    GradientsReply,
    NoReply,
    OutputsReply,
    ValueReply,
)
from headcheck.grader.sandbox.wire import label_by_name, label_by_position
from headcheck.grader.sandbox.worker import decoding, learning, moving
from headcheck.grader.sandbox.worker.batch import Meta, Tensors
from headcheck.grader.sandbox.worker.call_environment import (
    GRADIENT_MODES,
    advance,
    get_random_state,
    seed,
    watch_attention_calls,
    watch_settings,
)
from headcheck.grader.sandbox.worker.calling import (
    apply_memory_layouts,
    call_twice,
    call_with_overwritten_results,
    describe_dtypes_and_devices,
    describe_result,
    extract_tensors,
    list_alterations,
    list_breaches,
    make_sendable,
    set_training,
    snapshot_state,
)
from headcheck.grader.sandbox.worker.held import count_held
from headcheck.grader.sandbox.worker.left_behind import UnmovedTracker
from headcheck.grader.sandbox.worker.objects import ObjectHost

CallWithin = Callable[[Any, list[Tensor], Mapping[str, Tensor]], Any]


def _split_inputs(meta: Meta) -> dict[str, int]:
    """Return, for a call form, how many of the inputs are tokens; an empty dict if only one is."""
    return {"apart": meta["apart"]} if meta.get("apart", 1) > 1 else {}


def _list_call_options(meta: Meta) -> dict[str, Any]:
    """Return the options of a call form other than the inputs; an empty dict for a usual call."""
    manner = meta.get("manner", "usual")
    plain = manner in ("usual", "in training")
    return {**_split_inputs(meta), **({} if plain else {"manner": manner})}


class ObjectCaller(ObjectHost):
    """Calls the objects that it holds."""

    def call(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Call a function on modules, for its effect on them."""
        with torch.enable_grad():
            self._look_up(meta["name"])(
                *(self.objects[handle].target for handle in meta["handles"])
            )
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
            config_changed=any(vars(config) != before for config, before in made.configs),
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

    def list_breaches(self, meta: Meta, tensors: Tensors) -> Answer[ValueReply[list[str]]]:
        """List the ways in which a module breaks the rules that every nn.Module must follow."""
        inputs = [tensor.to(meta["device"]) for tensor in tensors.values()]
        return ValueReply(list_breaches(self._get(meta), inputs)), ()

    def prepare(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Freeze or unfreeze a module, give it gradients, and set its mode."""
        how = {"trainable": meta["trainable"], "training": meta["training"]}
        learning.prepare(self._get(meta), **how)
        return NoReply(), ()


def _call_mapped(target: Any, inputs: list[Tensor], weights: Mapping[str, Tensor]) -> Any:
    """Call a module for each item of the first axis, with vmap."""
    with warnings.catch_warnings():
        # Some kernels are mapped by a loop: slower, as torch says, and not wrong.
        warnings.filterwarnings("ignore", message="There is a performance drop")
        return torch.func.vmap(lambda *items: target(*items))(*inputs)


def _call_in_autocast(target: Any, inputs: list[Tensor], weights: Mapping[str, Tensor]) -> Any:
    """Call a module under autocast to bfloat16."""
    with torch.autocast(inputs[0].device.type, dtype=torch.bfloat16):
        return target(*inputs)


WAYS: Mapping[str, CallWithin] = {
    "functional_call": lambda target, inputs, weights: torch.func.functional_call(
        target, dict(weights), tuple(inputs)
    ),
    "vmap": _call_mapped,
    "autocast": _call_in_autocast,
}
