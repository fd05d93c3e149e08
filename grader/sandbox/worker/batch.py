"""Carry out a batch: several requests about each of several objects, answered in one reply."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from headcheck.grader.sandbox.operations import (
    COMPUTE_VJP,
    DROP,
    EVALUATE,
    NamedTensors,
    ObjectReply,
)

Meta = Mapping[str, Any]
Tensors = dict[str, Tensor]
Reply = tuple[dict[str, Any], NamedTensors]
BatchItem = Mapping[str, Any]
"""the op, meta and tensor names of one request"""
CALLS = (EVALUATE.name, COMPUTE_VJP.name)
"""the requests that leave an object unchanged"""
Dispatch = Callable[[str, Meta, Tensors], Reply]


def run_batch(
    dispatch: Dispatch, constructions: Sequence[Sequence[BatchItem]], tensors: Sequence[Tensor]
) -> tuple[list[ObjectReply], list[Tensor]]:
    """Return the replies about each object, and the tensors of all replies in one list.

    If a call fails, only its own answer is missing. If an object cannot be prepared, no more
    requests about it are carried out. A request refers to an object by its number in the order of
    construction; all objects are dropped at the end.
    """
    remaining = iter(tensors)
    replies: list[ObjectReply] = []
    outputs: list[Tensor] = []
    for requests in constructions:
        inputs = [{name: next(remaining) for name in request["tensors"]} for request in requests]
        reply, own_outputs = _run_object_batch(dispatch, requests, inputs)
        replies.append(reply)
        outputs.extend(own_outputs)
    return replies, outputs


def _run_object_batch(
    dispatch: Dispatch, requests: Sequence[BatchItem], inputs: Sequence[Tensors]
) -> tuple[ObjectReply, list[Tensor]]:
    handles: list[int] = []
    outputs: list[Tensor] = []
    joined = ObjectReply([], [], [])
    try:
        for request, tensors in zip(requests, inputs, strict=True):
            meta, own_outputs = _try(dispatch, request, handles, tensors)
            if "handle" in meta:
                handles.append(meta["handle"])
            outputs.extend(tensor for _, tensor in own_outputs)
            joined.dtypes.extend(meta.get("dtypes", ()))
            joined.devices.extend(meta.get("devices", ()))
            joined.tensors.append(len(own_outputs))
    except (Exception, SystemExit, GeneratorExit):
        return joined, outputs
    finally:
        dispatch(DROP.name, {"handles": handles}, {})
    return joined, outputs


def _try(dispatch: Dispatch, request: BatchItem, handles: list[int], tensors: Tensors) -> Reply:
    """Carry out a request; return nothing if a call fails, and raise if another request fails."""
    resolved = resolve_handles(request["meta"], handles.__getitem__)
    try:
        return dispatch(request["op"], resolved, tensors)
    except (Exception, SystemExit, GeneratorExit):
        if request["op"] in CALLS:
            return {}, ()
        raise


def resolve_handles(meta: Meta, get_handle: Callable[[int], int | None]) -> dict[str, Any]:
    """Replace the numbers of objects with their handles."""
    resolved = dict(meta)
    if "handle" in meta:
        resolved["handle"] = get_handle(meta["handle"])
    if "handles" in meta:
        resolved["handles"] = [get_handle(number) for number in meta["handles"]]
    return resolved
