"""A submission as a `properties.subject.Subject`, over a channel to the worker in which it runs.

A confined process and this process share one implementation; only the channel differs, so both give
the same verdicts.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Protocol

from torch import Tensor

from headcheck.grader.sandbox.grader_side.replies import (
    AlteredReply,
    DecodeReply,
    ForwardReply,
    GradientsReply,
    ModesReply,
    NamesReply,
    TensorsReply,
    make_failure,
    parse_handle,
    parse_reply,
)
from headcheck.grader.sandbox.wire import Message, label_by_name, label_by_position
from headcheck.grader.sandbox.worker.call_environment import isolate_random_state
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime
from headcheck.properties.subject import (
    CallOptions,
    CallResult,
    Chunk,
    Gradients,
    Module,
    Pass,
    PassResult,
    TensorInfo,
    Value,
)
from headcheck.properties.violation import Status, SubmissionFailed

NamedTensors = tuple[tuple[str, Tensor], ...]


class Channel(Protocol):
    """Carries requests to a worker. Raises SubmissionFailed if that is gone or too slow."""

    def request(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors = ()) -> Message:
        """Send one request and return its reply."""


_TURN = threading.RLock()
"""The lock of a request: answering replaces global state such as standard output."""


@dataclass(eq=False)
class InProcessChannel:
    """A worker runtime in this very process, for trusted code."""

    host: WorkerRuntime
    count: int = 0

    def request(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors = ()) -> Message:
        self.count += 1
        # As over a wire: neither side may hold tensors that the other can write to.
        with _TURN, isolate_random_state():
            reply = self.host.answer(Message(self.count, op, meta, _copy_tensors(tensors)))
        return replace(reply, tensors=_copy_tensors(reply.tensors))


def _copy_tensors(tensors: NamedTensors) -> NamedTensors:
    return tuple((name, tensor.detach().clone()) for name, tensor in tensors)


def make_subject(namespace: Mapping[str, Any]) -> "ChannelSubject":
    """Return trusted objects of this process, by name, as a subject."""
    return ChannelSubject(InProcessChannel(WorkerRuntime(dict(namespace))))


@dataclass(eq=False)
class ChannelSubject:
    """A submission at the other end of a channel."""

    channel: Channel
    device: str = "cpu"

    def ask(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors = ()) -> Message:
        """Send a request and return its reply. Raises SubmissionFailed if the submission raised."""
        reply = self.channel.request(op, meta, tensors)
        if reply.op == "raised":
            raise make_failure(reply.meta)
        return reply

    def construct(
        self,
        name: str,
        arguments: Mapping[str, Value],
        seed: int | None,
        dtype: str | None = None,
        device: str | None = None,
        *,
        given: str = "by name",
        form: Mapping[str, object] | None = None,
        variables: Mapping[str, int | float | bool] | None = None,
    ) -> Module:
        how: dict[str, Any] = {"dtype": dtype, "device": device, "given": given}
        how |= {} if form is None else {"form": form}
        how |= _list_variables(variables)
        meta = {"name": name, "arguments": dict(arguments), "seed": seed, **how}
        return ChannelModule(self, parse_handle(self.ask("construct", meta)), device or "cpu")

    def draw_after_construction(
        self, name: str, arguments: Mapping[str, Value], seed: int
    ) -> Tensor:
        meta = {"name": name, "arguments": dict(arguments), "seed": seed}
        return self.ask("draw", meta).tensors[0][1]

    def list_unset(self, name: str, arguments: Mapping[str, Value]) -> Sequence[str]:
        meta = {"name": name, "arguments": dict(arguments)}
        return parse_reply(self.ask("unset", meta), NamesReply).names

    def list_disturbed(self) -> Sequence[str]:
        return parse_reply(self.ask("disturbed", {}), NamesReply).names

    def get_function(
        self,
        name: str,
        variables: Mapping[str, int | float | bool] | None = None,
        form: Mapping[str, object] | None = None,
    ) -> Module:
        meta = {"name": name, **({} if form is None else {"form": form})}
        meta |= _list_variables(variables)
        return ChannelModule(self, parse_handle(self.ask("function", meta)))

    def call(self, name: str, modules: Sequence[Module]) -> None:
        handles = [module.handle for module in modules if isinstance(module, ChannelModule)]
        self.ask("call", {"name": name, "handles": handles})


def _list_variables(variables: Mapping[str, int | float | bool] | None) -> dict[str, Any]:
    return {"variables": dict(variables)} if variables else {}


@dataclass(eq=False)
class ChannelModule:
    """One object at the other end of a channel."""

    subject: ChannelSubject
    handle: int
    device: str = field(default="cpu")

    def _ask(self, op: str, tensors: NamedTensors = (), **meta: Any) -> Message:
        return self.subject.ask(op, {"handle": self.handle, **meta}, tensors)

    def describe_tensors(self, *, unregistered: bool = False) -> Mapping[str, TensorInfo]:
        reply = self._ask("tensors", unregistered=True) if unregistered else self._ask("tensors")
        return parse_reply(reply, TensorsReply).tensors

    def read(self, paths: Sequence[str] | None) -> Mapping[str, Tensor]:
        wanted = None if paths is None else list(paths)
        return dict(self._ask("fetch", paths=wanted).tensors)

    def write(self, tensors: Mapping[str, Tensor]) -> None:
        self._ask("write", label_by_name(tensors), device=self.device)

    def exchange(self, tensors: Mapping[str, Tensor], *, layers: bool = False) -> None:
        what = "layers" if layers else "parameters"
        self._ask("write", label_by_name(tensors), device=self.device, exchange=what)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self._ask("restore", label_by_name(tensors), device=self.device)

    def forward(self, inputs: Sequence[Tensor | None], options: CallOptions) -> CallResult:
        given = [tensor for tensor in inputs if tensor is not None]
        sent = label_by_position(given)
        reply = self._ask("forward", sent, device=self.device, **_list_options(options))
        tensors = tuple(tensor for _, tensor in reply.tensors)
        meta = parse_reply(reply, ForwardReply)
        count = len(tensors) - len(given)
        outputs, inputs_after = tensors[:count], tensors[count:]
        if count < 0 or not len(outputs) == len(meta.dtypes) == len(meta.devices):
            raise SubmissionFailed(Status.CRASHED, "answered with other tensors than it announced")
        return CallResult(outputs=outputs, inputs_after=inputs_after, **vars(meta))

    def refill(
        self, first: Sequence[Tensor], inputs: Sequence[Tensor], reuse: str, grad: str
    ) -> CallResult:
        sent = label_by_position([*first, *inputs])
        reply = self._ask("refill", sent, device=self.device, grad=grad, reuse=reuse)
        return _make_call_result(reply)

    def decode(
        self, chunks: Sequence[Chunk], counted: bool = False, manner: str = "usual"
    ) -> tuple[CallResult, ...]:
        sent = {str(number): chunk.tokens for number, chunk in enumerate(chunks)}
        for number, chunk in enumerate(chunks):
            sent |= {f"{number} {path}": tensor for path, tensor in chunk.weights.items()}
            sent |= {} if chunk.mask is None else {f"mask {number}": chunk.mask}
        after = [chunk.after for chunk in chunks]
        asked = {"device": self.device, "after": after, "counted": counted, "manner": manner}
        reply = self._ask("decode", label_by_name(sent), **asked)
        told = parse_reply(reply, DecodeReply)
        columns = [tensor for _, tensor in reply.tensors], told.forms, told.held, told.kept
        if {len(each) for each in columns} != {len(chunks)}:
            raise SubmissionFailed(Status.CRASHED, "answered fewer calls than were made")
        return tuple(
            CallResult((output,), form, held=held, kept=kept)
            for output, form, held, kept in zip(*columns, strict=True)
        )

    def overwrite_results(self, inputs: Sequence[Tensor]) -> CallResult:
        reply = self._ask("overwrite", label_by_position(inputs), device=self.device)
        return _make_call_result(reply)

    def call_within(
        self, way: str, inputs: Sequence[Tensor], weights: Mapping[str, Tensor]
    ) -> CallResult:
        sent = (*label_by_position(inputs), *label_by_name(weights))
        reply = self._ask("within", sent, device=self.device, way=way, paths=list(weights))
        return _make_call_result(reply)

    def evaluate(self, inputs: Sequence[Tensor | None], memory: str) -> Message:
        """Call it once in evaluation mode, and return only its outputs."""
        given = [tensor for tensor in inputs if tensor is not None]
        return self._ask("answer", label_by_position(given), device=self.device, memory=memory)

    def vjp(
        self,
        inputs: Sequence[Tensor],
        cotangent: Tensor,
        paths: Sequence[str],
        mask: Tensor | None,
        output: int = 0,
        only: int | None = None,
        apart: int = 1,
        times: int = 1,
        counted: bool = False,
        memory: str = "contiguous",
    ) -> Gradients:
        sent = label_by_name(_add_cotangent(inputs, cotangent, mask))
        how = {"device": self.device, "output": output, "only": only, "apart": apart}
        how |= {"times": times, "counted": counted, "memory": memory}
        reply = self._ask("vjp", sent, paths=list(paths), **how)
        found = dict(reply.tensors)
        arrived = tuple(found.get(f"input {i}") for i in range(len(inputs)))
        if any(g is not None and g.shape != x.shape for g, x in zip(arrived, inputs, strict=True)):
            raise SubmissionFailed(Status.CRASHED, "answered with gradients of another shape")
        counts = parse_reply(reply, GradientsReply)
        return Gradients(arrived, {path: found.get(path) for path in paths}, **vars(counts))

    def run_series(
        self,
        inputs: Sequence[Sequence[Tensor]],
        cotangents: Sequence[Tensor],
        passes: Sequence[Pass],
        paths: Sequence[str],
    ) -> tuple[PassResult, ...]:
        sent: dict[str, Tensor] = {}
        for number, (arguments, cotangent) in enumerate(zip(inputs, cotangents, strict=True)):
            sent.update(zip((f"x {number}", f"mask {number}"), arguments, strict=False))
            sent[f"cotangent {number}"] = cotangent
        asked = [{**asdict(each), "backward": list(each.backward)} for each in passes]
        how = {"paths": list(paths), "passes": asked, "device": self.device}
        found = dict(self._ask("passes", label_by_name(sent), **how).tensors)
        if not {f"output {number}" for number in range(len(passes))} <= set(found):
            raise SubmissionFailed(Status.CRASHED, "answered fewer calls than were made")
        return tuple(_parse_pass(found, number, each, paths) for number, each in enumerate(passes))

    def nest(self) -> "ChannelModule":
        return ChannelModule(self.subject, parse_handle(self._ask("nest")), self.device)

    def pair(self, other: Module) -> "ChannelModule":
        assert isinstance(other, ChannelModule), "both are at the other end of a channel"
        reply = self.subject.ask("pair", {"handles": [self.handle, other.handle]})
        return ChannelModule(self.subject, parse_handle(reply), self.device)

    def list_replaced(self) -> Sequence[str]:
        return parse_reply(self._ask("replaced"), NamesReply).names

    def prepare(self, *, trainable: bool, training: bool) -> None:
        self._ask("prepare", trainable=trainable, training=training)

    def list_modes(self) -> Sequence[bool]:
        return parse_reply(self._ask("modes"), ModesReply).modes

    def list_breaches(self, inputs: Sequence[Tensor]) -> Sequence[str]:
        sent = label_by_position(inputs)
        return parse_reply(self._ask("breaches", sent, device=self.device), NamesReply).names

    def move(self, dtype: str | None, device: str | None) -> None:
        self._ask("move", dtype=dtype, device=device)
        self.device = device or self.device

    def copy(self, way: str) -> "ChannelModule":
        reply = self._ask("copy", way=way)
        return ChannelModule(self.subject, parse_handle(reply), self.device)


OPTION_NAMES = tuple(each.name for each in fields(CallOptions))


def _list_options(options: CallOptions) -> dict[str, Any]:
    """Return the options by name. `asdict` would copy each of them deeply."""
    return {name: getattr(options, name) for name in OPTION_NAMES}


def _add_cotangent(
    inputs: Sequence[Tensor], cotangent: Tensor, mask: Tensor | None
) -> dict[str, Tensor]:
    sent = {**{str(i): tensor for i, tensor in enumerate(inputs)}, "cotangent": cotangent}
    return sent if mask is None else {**sent, "mask": mask}


def _make_call_result(reply: Message) -> CallResult:
    outputs = tuple(tensor for _, tensor in reply.tensors)
    altered = parse_reply(reply, AlteredReply).altered
    return CallResult(outputs, f"{len(outputs)} tensors", altered=altered)


def _parse_pass(
    found: Mapping[str, Tensor], number: int, asked: Pass, paths: Sequence[str]
) -> PassResult:
    back = bool(asked.backward)
    return PassResult(
        found[f"output {number}"],
        {n: found.get(f"input gradient {number} {n}") for n in asked.backward},
        {path: found.get(f"gradient {number} {path}") for path in paths if back},
        {
            path: found[f"weight {number} {path}"]
            for path in paths
            if asked.rate and f"weight {number} {path}" in found
        },
    )
