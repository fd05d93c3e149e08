"""A submission as a `properties.subject.Subject`, over a channel to the worker in which it runs.

A confined process and this process share one implementation; only the channel differs, so both give
the same verdicts.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from headcheck.grader.sandbox import operations
from headcheck.grader.sandbox.grader_side.replies import make_failure, parse_reply
from headcheck.grader.sandbox.operations import (
    AlteredReply,
    Form,
    HandleReply,
    NamedTensors,
    Operation,
    TraceReply,
)
from headcheck.grader.sandbox.wire import Message, label_by_name, label_by_position
from headcheck.grader.sandbox.worker.call_environment import isolate_random_state
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
from headcheck.properties.violations.violation import Status, SubmissionFailed

if TYPE_CHECKING:
    from headcheck.grader.sandbox.worker.runtime import WorkerRuntime


class Channel(Protocol):
    """Carries requests to a worker. Raises SubmissionFailed if the worker is gone or too slow."""

    def request(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors = ()) -> Message:
        """Send one request and return its reply."""


_TURN = threading.RLock()
"""The lock held during a request: answering replaces global state such as standard output."""


@dataclass(eq=False)
class InProcessChannel:
    """A worker runtime in the grader process itself, for trusted code."""

    host: "WorkerRuntime"
    count: int = 0

    def request(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors = ()) -> Message:
        with _TURN, isolate_random_state():
            return self.carry_out(op, meta, tensors)

    def carry_out(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors) -> Message:
        """Carry out a request, which changes the random state of this process."""
        self.count += 1
        # As over a wire: neither side may hold tensors that the other can write to.
        with _TURN:
            reply = self.host.answer(Message(self.count, op, meta, _copy_tensors(tensors)))
        return replace(reply, tensors=_copy_tensors(reply.tensors))


def _copy_tensors(tensors: NamedTensors) -> NamedTensors:
    return tuple((name, tensor.detach().clone()) for name, tensor in tensors)


def make_subject(namespace: Mapping[str, Any], source: str = "") -> "ChannelSubject":
    """Return trusted objects of this process, by name, as a subject.

    Their module's `source` tells which defaults a config class of its own has.
    """
    # Here, since the grader process holds no worker for code that it cannot trust.
    from headcheck.grader.reading.cells import read_source
    from headcheck.grader.sandbox.worker.runtime import WorkerRuntime

    host = WorkerRuntime(dict(namespace))
    host.source = read_source(source.encode(), "py")
    return ChannelSubject(InProcessChannel(host))


@dataclass(eq=False)
class ChannelSubject:
    """A submission at the other end of a channel."""

    channel: Channel
    device: str = "cpu"

    def ask(
        self, operation: Operation[Form], meta: Mapping[str, Any], tensors: NamedTensors = ()
    ) -> tuple[Form, NamedTensors]:
        """Have an operation carried out, and return its reply and tensors.

        Raises SubmissionFailed if the submission raised an exception or sent a reply of another
        form.
        """
        reply = self.channel.request(operation.name, meta, tensors)
        if reply.op == "raised":
            raise make_failure(reply.meta)
        return parse_reply(reply, operation.reply), reply.tensors

    def ask_for_module(
        self, operation: Operation[HandleReply], meta: Mapping[str, Any], device: str = "cpu"
    ) -> "ChannelModule":
        """Have an operation make an object in the worker."""
        return ChannelModule(self, self.ask(operation, meta)[0].handle, device)

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
        return self.ask_for_module(operations.CONSTRUCT, meta, device or "cpu")

    def draw_after_construction(
        self, name: str, arguments: Mapping[str, Value], seed: int
    ) -> Tensor:
        meta = {"name": name, "arguments": dict(arguments), "seed": seed}
        _, [(_, drawn)] = self.ask(operations.DRAW_AFTER_CONSTRUCTION, meta)
        return drawn

    def list_unset(self, name: str, arguments: Mapping[str, Value]) -> Sequence[str]:
        meta = {"name": name, "arguments": dict(arguments)}
        return self.ask(operations.LIST_UNSET, meta)[0].value

    def list_disturbed(self) -> Sequence[str]:
        return self.ask(operations.LIST_DISTURBED, {})[0].value

    def get_function(
        self,
        name: str,
        variables: Mapping[str, int | float | bool] | None = None,
        form: Mapping[str, object] | None = None,
    ) -> Module:
        meta = {"name": name, **({} if form is None else {"form": form})}
        meta |= _list_variables(variables)
        return self.ask_for_module(operations.GET_FUNCTION, meta)

    def call(self, name: str, modules: Sequence[Module]) -> None:
        handles = [module.handle for module in modules if isinstance(module, ChannelModule)]
        self.ask(operations.CALL, {"name": name, "handles": handles})


def _list_variables(variables: Mapping[str, int | float | bool] | None) -> dict[str, Any]:
    return {"variables": dict(variables)} if variables else {}


@dataclass(eq=False)
class ChannelModule:
    """One object at the other end of a channel."""

    subject: ChannelSubject
    handle: int
    device: str = field(default="cpu")

    def _ask(
        self, operation: Operation[Form], tensors: NamedTensors = (), **meta: Any
    ) -> tuple[Form, NamedTensors]:
        return self.subject.ask(operation, {"handle": self.handle, **meta}, tensors)

    def _derive(self, operation: Operation[HandleReply], **meta: Any) -> "ChannelModule":
        """Make another object from this one."""
        given = {"handle": self.handle, **meta}
        return self.subject.ask_for_module(operation, given, self.device)

    def describe_tensors(self, *, unregistered: bool = False) -> Mapping[str, TensorInfo]:
        found = self._ask(operations.DESCRIBE_TENSORS, unregistered=unregistered)[0].value
        return {path: TensorInfo(**vars(each)) for path, each in found.items()}

    def read(self, paths: Sequence[str] | None) -> Mapping[str, Tensor]:
        wanted = None if paths is None else list(paths)
        return dict(self._ask(operations.FETCH, paths=wanted)[1])

    def write(self, tensors: Mapping[str, Tensor]) -> None:
        self._ask(operations.WRITE, label_by_name(tensors), device=self.device)

    def exchange(self, tensors: Mapping[str, Tensor], *, layers: bool = False) -> None:
        what = "layers" if layers else "parameters"
        self._ask(operations.WRITE, label_by_name(tensors), device=self.device, exchange=what)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self._ask(operations.RESTORE, label_by_name(tensors), device=self.device)

    def forward(self, inputs: Sequence[Tensor | None], options: CallOptions) -> CallResult:
        given = [tensor for tensor in inputs if tensor is not None]
        # `asdict` would copy each of them deeply.
        how = {name: getattr(options, name) for name in OPTION_NAMES}
        sent = label_by_position(given)
        seen, named = self._ask(operations.FORWARD, sent, device=self.device, **how)
        tensors = tuple(tensor for _, tensor in named)
        count = len(tensors) - len(given)
        outputs, inputs_after = tensors[:count], tensors[count:]
        if count < 0 or not len(outputs) == len(seen.dtypes) == len(seen.devices):
            raise SubmissionFailed(Status.CRASHED, "answered with other tensors than it announced")
        return CallResult(outputs=outputs, inputs_after=inputs_after, **vars(seen))

    def trace(
        self, inputs: Sequence[Tensor], apart: int = 1, before: Sequence[Tensor] = ()
    ) -> tuple[TraceReply, Tensor]:
        """Call it once in evaluation mode; return the steps of the call, and their values.

        The call may continue a sequence that came `before` in chunks.
        """
        sent = label_by_position([*before, *inputs])
        how = {"device": self.device, "apart": apart, "before": len(before)}
        steps, named = self._ask(operations.TRACE, sent, **how)
        if len(named) != 1:
            raise SubmissionFailed(Status.CRASHED, "answered with other tensors than it announced")
        return steps, named[0][1]

    def refill(
        self, first: Sequence[Tensor], inputs: Sequence[Tensor], reuse: str, grad: str
    ) -> CallResult:
        sent = label_by_position([*first, *inputs])
        how = {"device": self.device, "grad": grad, "reuse": reuse}
        return _make_call_result(*self._ask(operations.REFILL, sent, **how))

    def decode(
        self, chunks: Sequence[Chunk], counted: bool = False, manner: str = "usual"
    ) -> tuple[CallResult, ...]:
        sent = {str(number): chunk.tokens for number, chunk in enumerate(chunks)}
        for number, chunk in enumerate(chunks):
            sent |= {f"{number} {path}": tensor for path, tensor in chunk.weights.items()}
            sent |= {} if chunk.mask is None else {f"mask {number}": chunk.mask}
        after = [chunk.after for chunk in chunks]
        asked = {"device": self.device, "after": after, "counted": counted, "manner": manner}
        told, outputs = self._ask(operations.DECODE, label_by_name(sent), **asked)
        columns = [tensor for _, tensor in outputs], told.forms, told.held, told.kept
        if {len(each) for each in columns} != {len(chunks)}:
            raise SubmissionFailed(Status.CRASHED, "answered fewer calls than were made")
        return tuple(
            CallResult((output,), form, held=held, kept=kept)
            for output, form, held, kept in zip(*columns, strict=True)
        )

    def overwrite_results(self, inputs: Sequence[Tensor]) -> CallResult:
        sent = label_by_position(inputs)
        reply = self._ask(operations.OVERWRITE_RESULTS, sent, device=self.device)
        return _make_call_result(*reply)

    def call_within(
        self, way: str, inputs: Sequence[Tensor], weights: Mapping[str, Tensor]
    ) -> CallResult:
        sent = (*label_by_position(inputs), *label_by_name(weights))
        how = {"device": self.device, "way": way, "paths": list(weights)}
        return _make_call_result(*self._ask(operations.CALL_WITHIN, sent, **how))

    def evaluate(self, inputs: Sequence[Tensor | None], memory: str) -> None:
        """Call it once in evaluation mode, only for its outputs."""
        sent = label_by_position([tensor for tensor in inputs if tensor is not None])
        self._ask(operations.EVALUATE, sent, device=self.device, memory=memory)

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
        sent = (*label_by_position(inputs), ("cotangent", cotangent))
        sent += () if mask is None else (("mask", mask),)
        how = {"device": self.device, "output": output, "only": only, "apart": apart}
        how |= {"times": times, "counted": counted, "memory": memory}
        counts, named = self._ask(operations.COMPUTE_VJP, sent, paths=list(paths), **how)
        found = dict(named)
        arrived = tuple(found.get(f"input {i}") for i in range(len(inputs)))
        if any(g is not None and g.shape != x.shape for g, x in zip(arrived, inputs, strict=True)):
            raise SubmissionFailed(Status.CRASHED, "answered with gradients of another shape")
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
        found = dict(self._ask(operations.RUN_SERIES, label_by_name(sent), **how)[1])
        if not {f"output {number}" for number in range(len(passes))} <= set(found):
            raise SubmissionFailed(Status.CRASHED, "answered fewer calls than were made")
        return tuple(_parse_pass(found, number, each, paths) for number, each in enumerate(passes))

    def nest(self) -> "ChannelModule":
        return self._derive(operations.NEST)

    def pair(self, other: Module) -> "ChannelModule":
        assert isinstance(other, ChannelModule), "both are at the other end of a channel"
        both = {"handles": [self.handle, other.handle]}
        return self.subject.ask_for_module(operations.PAIR, both, self.device)

    def list_replaced(self) -> Sequence[str]:
        return self._ask(operations.LIST_REPLACED)[0].value

    def prepare(self, *, trainable: bool, training: bool) -> None:
        self._ask(operations.PREPARE, trainable=trainable, training=training)

    def list_modes(self) -> Sequence[bool]:
        return self._ask(operations.LIST_MODES)[0].value

    def list_breaches(self, inputs: Sequence[Tensor]) -> Sequence[str]:
        sent = label_by_position(inputs)
        return self._ask(operations.LIST_BREACHES, sent, device=self.device)[0].value

    def move(self, dtype: str | None, device: str | None) -> None:
        self._ask(operations.MOVE, dtype=dtype, device=device)
        self.device = device or self.device

    def copy(self, way: str) -> "ChannelModule":
        return self._derive(operations.COPY, way=way)


OPTION_NAMES = tuple(each.name for each in fields(CallOptions))


def _make_call_result(reply: AlteredReply, tensors: NamedTensors) -> CallResult:
    outputs = tuple(tensor for _, tensor in tensors)
    return CallResult(outputs, f"{len(outputs)} tensors", altered=reply.altered)


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
