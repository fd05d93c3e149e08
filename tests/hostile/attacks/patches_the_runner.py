"""Replaces the functions of the runner that shares its process, so that it reports success."""

import sys

import torch

TARGETS = {
    "WorkerRuntime",
    "compute_vjp",
    "_find_cause",
    "Refused",
    "has_changed",
    "describe_result",
    "make_sendable",
}


def attack():
    for name, module in list(sys.modules.items()):
        if module is None or not name.startswith("headcheck."):
            continue
        for thing in list(vars(module).values()):
            if isinstance(thing, type) and thing.__name__ == "WorkerRuntime":
                thing.compute_vjp = lambda self, meta, tensors: (
                    {},
                    tuple((n, t) for n, t in tensors.items() if n != "cotangent"),
                )
                thing._find_cause = lambda self, error: ValueError("all is well")
            if isinstance(thing, type) and thing.__name__ == "Refused":
                thing.__str__ = lambda self: "passed"
        for old in ("has_changed", "describe_result", "make_sendable"):
            if hasattr(module, old):
                setattr(
                    module,
                    old,
                    lambda given, *more: given if isinstance(given, torch.Tensor) else "one Tensor",
                )
