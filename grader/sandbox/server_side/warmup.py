"""Warm up the worker runtime once, in the zygote, on behalf of all children.

Importing is not enough: much of torch and Python is initialised on the first call. This
initialisation takes a fifth of the time of the requests made about every submission, and every
child would repeat it. So a runtime in the zygote answers every kind of request once, about a sample
submission. Children can read the server's memory, so the sample must reveal nothing: it only runs
common operations that compute nothing in particular.
"""

import json
import socket
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from headcheck.grader.sandbox import wire
from headcheck.grader.sandbox.wire import Message, label_by_name
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime

SAMPLE = '''
import math
import torch
import torch.nn as nn


class Sample(nn.Module):
    """Common operations without a meaning."""

    def __init__(self, size, dropout=0.1, bias=False):
        super().__init__()
        self.size = size
        self.first = nn.Linear(size, size, bias=bias)
        self.second = nn.Linear(size, size)
        self.parts = nn.ModuleList([nn.Linear(size, 2, bias=bias) for _ in range(2)])
        self.own = nn.Parameter(torch.rand(size, size))
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("corner", torch.triu(torch.ones(size, size), diagonal=1))

    def forward(self, x):
        several, n, size = x.shape
        y = self.dropout(self.first(x) @ self.own) / size**0.5
        y = y.view(several, n, 2, size // 2).transpose(1, 2)
        z = torch.softmax(y.contiguous().reshape(several, n, size), dim=0)
        z = z.masked_fill(self.corner.bool()[:n, :size], 7.0) * math.sqrt(size)
        z.masked_fill_(self.corner[:n, :size] > 2, -torch.inf)
        pieces = torch.cat([part(z) for part in self.parts], dim=-1)
        mean = torch.matmul(pieces.transpose(1, 2), pieces).mean(-1, keepdim=True)
        return self.second(z) + mean.sum() + torch.ones(n, size).tril().to(x)
'''


def warm_up() -> None:
    """Have a runtime answer the sample requests, over a socket as in a child."""
    ours, theirs = socket.socketpair()
    runtime = WorkerRuntime()
    with ours, theirs:
        for number, (op, meta, tensors) in enumerate(iter_sample_requests()):
            wire.write(ours.fileno(), Message(number, op, meta, label_by_name(tensors)))
            wire.write(theirs.fileno(), runtime.answer(wire.read(theirs.fileno())))
            reply = wire.read(ours.fileno())
            assert reply.op == "ok", reply.meta
    del sys.modules["submission"]


def iter_sample_requests() -> Iterator[tuple[str, dict[str, Any], dict[str, Tensor]]]:
    """Yield the requests that are made about a submission, every kind at least once."""
    x = torch.rand(3, 4, 4, dtype=torch.float64)
    weights = {f"{name}.weight": torch.rand(4, 4).double() for name in ("first", "second")}
    construction = {"name": "Sample", "arguments": {"size": 4}, "seed": 1}
    target = {"handle": 1, "device": "cpu"}
    call = {**target, "memory": "contiguous"}
    options = {**call, "seed": 1, "watched": False, "times": 1}
    for kind, source in (("ipynb", make_notebook()), ("py", SAMPLE)):
        yield "read", {"kind": kind}, {"source": torch.tensor(list(source.encode())).byte()}
    yield "load", {"names": ["Sample"], "by_hand": True}, {}
    yield "construct", {**construction, "dtype": "float64"}, {}
    yield "describe_tensors", {"handle": 1}, {}
    yield "fetch", {"handle": 1, "paths": list(weights)}, {}
    yield "write", target, weights
    yield "forward", {**options, "training": True, "grad": "no_grad"}, {"0": x}
    yield "forward", {**options, "training": False, "grad": "grad"}, {"0": x}
    ones = torch.ones_like(x)
    asked = {**target, "paths": list(weights)}
    yield "compute_vjp", {**asked, "output": 0}, {"0": x, "cotangent": ones}
    once = {"inputs": 0, "training": True, "grad": "grad", "input_learns": True}
    once |= {"weights_learn": True, "backward": [0], "rate": 0.0, "clear": True, "output": 0}
    yield "run_series", {**asked, "passes": [once]}, {"x 0": x, "cotangent 0": ones}
    yield "nest", {"handle": 1}, {}
    yield "copy", {"handle": 1, "way": "deepcopy"}, {}
    yield "copy", {"handle": 1, "way": "state_dict"}, {}
    yield "move", {"handle": 1, "dtype": "float32", "device": None}, {}
    yield "forward", {**options, "training": False, "grad": "no_grad"}, {"0": x.float()}
    yield "move", {"handle": 1, "dtype": None, "device": "meta"}, {}
    remote = {**options, "device": "meta", "training": False, "grad": "no_grad"}
    yield "forward", remote, {"0": x.float()}
    batch = [
        {"op": "construct", "meta": {**construction, "dtype": "float32"}, "tensors": []},
        {"op": "evaluate", "meta": {**call, "handle": 0}, "tensors": ["0"]},
    ]
    yield "run_batch", {"constructions": [batch]}, {"0": x.float()}
    yield "run_transcript", {"requests": [{**batch[0], "makes": 0}, batch[1]]}, {"0": x.float()}
    yield "drop", {"handles": [1]}, {}


def make_notebook() -> str:
    """Return the sample as a notebook."""
    cell: dict[str, Any] = {"cell_type": "code", "execution_count": None, "id": "a"}
    cells = [{**cell, "metadata": {}, "outputs": [], "source": f"%time 1\n{SAMPLE}"}]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
