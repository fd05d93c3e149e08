"""Several requests about each of several objects, carried out at once; their answers, joined."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

Reply = tuple[dict[str, Any], tuple[tuple[str, Tensor], ...]]
Request = Mapping[str, Any]
Dispatch = Callable[[str, Mapping[str, Any], dict[str, Tensor]], Reply]


def run_batch(
    dispatch: Dispatch, constructions: Sequence[Sequence[Request]], tensors: Sequence[Tensor]
) -> tuple[list[dict[str, Any]], list[Tensor]]:
    """What is said about each object, and the tensors of all answers one after the other.

    A request that fails ends those about its own object. Objects are known by the order in which
    they are made, and are gone in the end.
    """
    waiting = iter(tensors)
    said: list[dict[str, Any]] = []
    outputs: list[Tensor] = []
    for requests in constructions:
        given = [{name: next(waiting) for name in asked["tensors"]} for asked in requests]
        seen, came = _run_object_batch(dispatch, requests, given)
        said.append({**seen, "tensors": len(came)})
        outputs.extend(came)
    return said, outputs


def _run_object_batch(
    dispatch: Dispatch, requests: Sequence[Request], given: Sequence[dict[str, Tensor]]
) -> tuple[dict[str, list[str]], list[Tensor]]:
    made: list[int] = []
    outputs: list[Tensor] = []
    said: dict[str, list[str]] = {"dtypes": [], "devices": []}
    try:
        for asked, own in zip(requests, given, strict=True):
            known, came = dispatch(asked["op"], _resolve_handles(asked["meta"], made), own)
            if "handle" in known:
                made.append(known["handle"])
            for key, several in said.items():
                several.extend(known.get(key, ()))
            outputs.extend(tensor for _, tensor in came)
    except (Exception, SystemExit, GeneratorExit):
        return {"dtypes": [], "devices": []}, []
    finally:
        dispatch("drop", {"handles": made}, {})
    return said, outputs


def _resolve_handles(meta: Mapping[str, Any], made: list[int]) -> dict[str, Any]:
    """What is asked, with the handles that objects got in place of their order."""
    real = dict(meta)
    if "handle" in meta:
        real["handle"] = made[meta["handle"]]
    if "handles" in meta:
        real["handles"] = [made[number] for number in meta["handles"]]
    return real
