"""The operations of a worker: the one table of the requests that it accepts and of its replies.

An operation has the name of the method that carries it out (`worker/runtime.py`,
`worker/objects.py`, `worker/object_calls.py`). The worker returns a reply of a fixed form, and
possibly tensors. The grader's side checks that what arrives has this form, since a submission may
answer in the worker's place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from torch import Tensor

from headcheck.grader.reading.code_patterns import CodePattern
from headcheck.grader.reading.edits import Edit
from headcheck.grader.reading.excerpts import SourceLines
from headcheck.grader.reading.feeding_lines import LineNeighbours

MESSAGE_LIMIT = 400
"""the most characters of the message of an error"""
MAX_PRINTED = 2000
"""the most characters of what a submission prints that are kept"""
NamedTensors = tuple[tuple[str, Tensor], ...]


Form = TypeVar("Form")


@dataclass(frozen=True)
class NoReply:
    """An empty reply; tensors may come with it."""


@dataclass(frozen=True)
class ValueReply(Generic[Form]):
    """A single value."""

    value: Form


@dataclass(frozen=True)
class LoadReply:
    """The warnings that arose while definitions were run."""

    remarks: list[dict[str, Any]] = field(default_factory=list)
    importing: str | None = None
    """the module that must be imported before loading can continue"""


@dataclass(frozen=True)
class PrintsReply:
    """What was printed since the last such request."""

    text: str
    """at most `MAX_PRINTED` characters"""
    length: int
    """the characters of all that was printed"""


@dataclass(frozen=True)
class HandleReply:
    """The handle of a new object, for later requests."""

    handle: int


@dataclass(frozen=True)
class DescribedTensor:
    """A description of a tensor that a module holds, without its values."""

    kind: str
    shape: tuple[int, ...]
    dtype: str
    device: str
    trainable: bool
    has_gradient: bool = False


@dataclass(frozen=True)
class OutputsReply:
    """The dtypes and devices of a call's outputs, which come as tensors."""

    dtypes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class ForwardReply:
    """What was observed during a call; the outputs come as tensors."""

    dtypes: tuple[str, ...]
    devices: tuple[str, ...]
    form: str
    random_state_moved: bool
    training_after: bool
    earlier_result_changed: bool
    config_changed: bool
    called: tuple[str, ...]
    held: int
    altered: tuple[str, ...]
    unmoved: tuple[str, ...]


@dataclass(frozen=True)
class AlteredReply:
    """The changes that a call made to its inputs; the outputs come as tensors."""

    altered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TracedStep:
    """One tensor that a call computed, read or wrote into."""

    kind: str
    """the name of the function, or "input", "parameter" or "buffer" with a number or a path"""
    shape: tuple[int, ...]
    sources: tuple[int, ...]
    """the steps that it was computed from, by their numbers"""
    cell: int | None
    line: int | None
    """the line of the submission that computed it; None if it was computed elsewhere"""
    kept: bool
    """whether its values are sent"""
    outer: int | None = None
    """the line of the same cell from which the function around it was called, if it was"""


@dataclass(frozen=True, slots=True)
class MadeWeight:
    """A weight by one of its paths, and the lines that set the attribute that holds it."""

    path: str
    lines: tuple[tuple[int | None, int], ...]


@dataclass(frozen=True)
class TraceReply:
    """The steps of a call; the values that were kept come as one tensor."""

    steps: tuple[TracedStep, ...]
    returned: tuple[int, ...]
    """the steps that the call returned"""
    lines: tuple[LineNeighbours, ...] = ()
    """what the lines of the steps rest on besides tensors"""
    ends: tuple[tuple[int | None, int], ...] = ()
    """the lines on which the function that was called returns something"""
    made: tuple[MadeWeight, ...] = ()
    """the lines that make the weights that the call reads"""
    shared: tuple[MadeWeight, ...] = ()
    """weights that have several paths, one after the other, with the lines that share them"""


@dataclass(frozen=True)
class DecodeReply:
    """The results of several calls with a cache; the outputs come as tensors."""

    forms: tuple[str, ...]
    held: tuple[int, ...]
    kept: tuple[int, ...]


@dataclass(frozen=True)
class GradientsReply:
    """How many numbers were stored for the gradients, if counted; the gradients come as tensors."""

    kept: int = 0
    held: int = 0


@dataclass(frozen=True)
class ObjectReply:
    """The part of a batch's reply that is about one object."""

    dtypes: list[str]
    devices: list[str]
    tensors: list[int]
    """how many tensors each request returned, up to the last request that was carried out"""


@dataclass(frozen=True)
class BatchReply:
    """The replies about each object of a batch."""

    constructions: list[ObjectReply]


@dataclass(frozen=True)
class TranscriptEntry:
    """The reply to one request of a transcript."""

    op: str
    meta: dict[str, Any]
    tensors: list[str]


@dataclass(frozen=True)
class TranscriptReply:
    """The replies to all requests of a transcript."""

    replies: list[TranscriptEntry]


Answer = tuple[Form, NamedTensors]
"""a reply and its tensors"""


@dataclass(frozen=True)
class Operation(Generic[Form]):
    """A request that a worker carries out."""

    name: str
    """the name of the worker's method"""
    reply: type[Form]


# The file: read, loaded.
READ = Operation("read", ValueReply[dict[str, Any]])  # as `grader.reading.outline` describes it
LOAD = Operation("load", LoadReply)
IMPORT_NEXT = Operation("import_next", NoReply)
RESUME = Operation("resume", LoadReply)
FIND_CODE_PATTERNS = Operation("find_code_patterns", ValueReply[tuple[CodePattern, ...]])
EXTRACT_EXCERPTS = Operation("extract_excerpts", ValueReply[list[SourceLines]])
FINGERPRINT = Operation("fingerprint", ValueReply[list[str]])
LIST_SLIPS = Operation("list_slips", ValueReply[tuple[Edit, ...]])
TAKE_PRINTS = Operation("take_prints", PrintsReply)

# Objects: made, described, changed.
CONSTRUCT = Operation("construct", HandleReply)
DRAW_AFTER_CONSTRUCTION = Operation("draw_after_construction", NoReply)
LIST_UNSET = Operation("list_unset", ValueReply[list[str]])
GET_FUNCTION = Operation("get_function", HandleReply)
CALL = Operation("call", NoReply)
COPY = Operation("copy", HandleReply)
NEST = Operation("nest", HandleReply)
PAIR = Operation("pair", HandleReply)
MOVE = Operation("move", NoReply)
RESTORE = Operation("restore", NoReply)
PREPARE = Operation("prepare", NoReply)
DROP = Operation("drop", NoReply)
DESCRIBE_TENSORS = Operation("describe_tensors", ValueReply[dict[str, DescribedTensor]])  # by path
FETCH = Operation("fetch", NoReply)
WRITE = Operation("write", NoReply)
LIST_MODES = Operation("list_modes", ValueReply[list[bool]])
LIST_REPLACED = Operation("list_replaced", ValueReply[list[str]])
LIST_BREACHES = Operation("list_breaches", ValueReply[list[str]])
LIST_DISTURBED = Operation("list_disturbed", ValueReply[list[str]])

# Calls of an object.
FORWARD = Operation("forward", ForwardReply)
EVALUATE = Operation("evaluate", OutputsReply)
TRACE = Operation("trace", TraceReply)
REFILL = Operation("refill", AlteredReply)
OVERWRITE_RESULTS = Operation("overwrite_results", AlteredReply)
DECODE = Operation("decode", DecodeReply)
CALL_WITHIN = Operation("call_within", AlteredReply)
COMPUTE_VJP = Operation("compute_vjp", GradientsReply)
RUN_SERIES = Operation("run_series", NoReply)

# Many of these in one message.
RUN_BATCH = Operation("run_batch", BatchReply)
RUN_TRANSCRIPT = Operation("run_transcript", TranscriptReply)

CALLS = {OVERWRITE_RESULTS.name: 3, REFILL.name: 4, LIST_BREACHES.name: 2}
"""how many calls a request makes at most, if it always makes several"""


def count_calls(op: str, meta: Mapping[str, Any]) -> int:
    """Return how many calls of the submission a request makes; a backward pass counts as one."""
    passes = meta.get("passes", ())
    series = sum(1 + len(each["backward"]) for each in passes)
    return series or len(meta.get("after", ())) or CALLS.get(op, 1) * meta.get("times", 1)


OPERATIONS = tuple(each for each in tuple(globals().values()) if isinstance(each, Operation))
