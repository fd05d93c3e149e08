"""What the sandbox costs: `python -m benchmarks.sandbox [CHILDREN] [CALLS]`.

Measures the best sandbox that this machine supports, and no sandbox: the time from the request for
a child to its first reply, the time until it has ended, and how much longer a call takes than in
this process. Prints medians; on a busy machine they mostly show the load.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import torch

from headcheck.grader.sandbox.grader_side.servers import ServerHandle
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject, make_subject
from headcheck.grader.sandbox.isolation import Layer
from headcheck.grader.sandbox.limits import Limits
from headcheck.properties.subject import CallOptions, Module

CHILDREN, CALLS = 50, 500
SOURCE = """
import torch
def wanted(x):
    return torch.softmax(x @ x.T, dim=-1) @ x
"""


def main() -> None:
    """Measure and print."""
    given = [int(argument) for argument in sys.argv[1:]]
    children, calls = [*given, *(CHILDREN, CALLS)[len(given) :]]
    torch.set_num_threads(1)
    for left_out in ((), tuple(Layer)):
        with ServerHandle(trusted=True, without=left_out) as server:
            layers = ", ".join(server.isolation_level.layers) or "a process of its own, no more"
            print(f"isolation level {server.isolation_level.name}: {layers}")
            lives = [time_child(server) for _ in range(children)]
            show("a child's first reply", [first for first, _ in lives])
            show("a child's whole life", [whole for _, whole in lives])
            compare_calls(server, calls)


def time_child(server: ServerHandle) -> tuple[float, float]:
    """Return the seconds until a child has answered, and until it has ended."""
    began = time.perf_counter()
    child = server.start_child(Limits())
    child.request("drop", {"handles": []})
    first = time.perf_counter() - began
    child.close()
    return first, time.perf_counter() - began


def compare_calls(server: ServerHandle, calls: int) -> None:
    """Compare the same calls in a child and in this process."""
    session = Session(server, SOURCE.encode(), "py", Limits())
    session.load("wanted")
    namespace: dict[str, object] = {}
    exec(SOURCE, namespace)
    there = ChannelSubject(session).get_function("wanted")
    here = make_subject(namespace).get_function("wanted")
    for name, call in (("forward", forward), ("vector-Jacobian product", vjp)):
        inside, beside = (
            time_calls(partial(call, there), calls),
            time_calls(partial(call, here), calls),
        )
        more = statistics.median(inside) - statistics.median(beside)
        print(f"  {name:<24} {1e3 * more:7.2f} ms more than in this process")
    session.close()


def forward(module: Module) -> None:
    """Make one call."""
    module.forward([INPUT], CallOptions())


def vjp(module: Module) -> None:
    """Compute one gradient."""
    module.vjp([INPUT], INPUT, [], None)


def time_calls(action: Callable[[], None], times: int) -> list[float]:
    """Return the seconds that each run of an action takes."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        found.append(time.perf_counter() - began)
    return found


def show(name: str, seconds: list[float]) -> None:
    """Print the median and the fastest time."""
    median, best = 1e3 * statistics.median(seconds), 1e3 * min(seconds)
    print(f"  {name:<24} {median:7.2f} ms (fastest {best:.2f})")


INPUT = torch.randn(8, 16, dtype=torch.float64)

if __name__ == "__main__":
    main()
