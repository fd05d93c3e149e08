"""A trace as a graph: the steps of one call, and which of them rest on which.

A submission may send any trace, so its form is checked here.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from torch import Tensor

from headcheck.grader.grading.tracing.operations import OPERATIONS, PRODUCTS, SOFTMAXES, Action
from headcheck.grader.grading.tracing.positions import Position, sort_positions
from headcheck.grader.reading.feeding_lines import LineNeighbours
from headcheck.grader.sandbox.grader_side.replies import parse_position
from headcheck.grader.sandbox.operations import MadeWeight, TracedStep, TraceReply

MAX_STEPS = 4000
MAX_SIZE = 1 << 20
PARAMETER = "parameter "
GIVEN = ("input ", PARAMETER, "buffer ", "constant")
"""how the kinds of steps begin that are not computed"""
Node = TypeVar("Node")


class BadTrace(Exception):
    """A submission sent something that is no trace."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """The values of one step of a trace."""

    number: int
    shape: tuple[int, ...]
    values: Tensor

    @cached_property
    def total(self) -> float:
        """The sum of all numbers."""
        return float(self.values.sum())


@dataclass(frozen=True, eq=False)
class Flow:
    """The steps of a call, in order, with their values."""

    steps: tuple[TracedStep, ...]
    returned: tuple[int, ...]
    values: dict[int, Recorded]
    lines: dict[Position, LineNeighbours]
    ends: tuple[Position, ...]
    """the lines on which the function that was called returns"""
    made: dict[str, tuple[Position, ...]]
    """the lines that set what holds a weight, by its path"""
    shared: tuple[tuple[MadeWeight, MadeWeight], ...]
    """pairs of paths that hold one weight"""

    @cached_property
    def by_size(self) -> dict[int, list[Recorded]]:
        """The computed or given values, by how many numbers they have."""
        found: dict[int, list[Recorded]] = {}
        for number, recorded in self.values.items():
            if not self.kinds[number].startswith(GIVEN[1:]):
                found.setdefault(recorded.values.numel(), []).append(recorded)
        return found

    @cached_property
    def kinds(self) -> list[str]:
        """What each step does."""
        return [step.kind for step in self.steps]

    @cached_property
    def does(self) -> list[Action | None]:
        """What each step does, if the table of operations says it."""
        return [OPERATIONS.get(kind) for kind in self.kinds]

    @cached_property
    def inputs(self) -> list[int]:
        """The steps that read what the call is given."""
        return [n for n, kind in enumerate(self.kinds) if kind.startswith("input ")]

    @cached_property
    def parameters(self) -> dict[int, str]:
        """The steps that read parameters, with their paths."""
        every = enumerate(self.kinds)
        return {n: k.removeprefix(PARAMETER) for n, k in every if k.startswith(PARAMETER)}

    @cached_property
    def reached(self) -> set[int]:
        """The steps on which the results rest."""
        return self.walk_back(self.returned)

    @cached_property
    def from_tokens(self) -> set[int]:
        """The steps that rest on inputs."""
        return self.walk_on(self.inputs)

    @cached_property
    def softmaxes(self) -> list[int]:
        """The steps by which what tokens give is weighed, if a result rests on them."""
        return [n for n in sorted(self.reached) if self.does[n] in SOFTMAXES]

    @cached_property
    def comparing(self) -> set[int]:
        """The steps that multiply what tokens give with what tokens give."""
        products = (n for n in self.reached if self.does[n] in PRODUCTS)
        return {n for n in products if len(self.from_tokens & {*self.steps[n].sources}) > 1}

    @cached_property
    def attending(self) -> list[int]:
        """The softmaxes of such products, and the kernels."""
        compared = self.walk_on(self.comparing)
        return [n for n in self.softmaxes if n in compared or self.does[n] is Action.KERNEL]

    @cached_property
    def numels(self) -> list[int]:
        """How many numbers each step gives."""
        return [math.prod(step.shape) for step in self.steps]

    @cached_property
    def uses(self) -> dict[int, list[int]]:
        """The steps that each step goes into."""
        found: dict[int, list[int]] = {number: [] for number in range(len(self.steps))}
        for number, step in enumerate(self.steps):
            for source in step.sources:
                found[source].append(number)
        return found

    def walk_back(self, starts: Iterable[int], stops: Collection[int] = ()) -> set[int]:
        """Return these steps and all that they rest on, up to other steps, which are left out."""
        return walk(starts, lambda n: (m for m in self.steps[n].sources if m not in stops))

    def walk_on(self, starts: Iterable[int], through: Collection[int] | None = None) -> set[int]:
        """Return these steps and all that rest on them, perhaps only through some steps."""
        return walk(starts, lambda n: (m for m in self.uses[n] if through is None or m in through))

    def find_edge(self, starts: Iterable[int], stops: Collection[int]) -> set[int]:
        """Return those of some steps that others take."""
        return {n for each in starts for n in self.steps[each].sources if n in stops}

    def skip_layouts(self, number: int) -> int:
        """Return the step whose numbers a step only lays out, or this itself."""
        while self.does[number] is Action.LAYOUT and len(self.steps[number].sources) == 1:
            [number] = self.steps[number].sources
        return number

    def list_returns(self, positions: Iterable[Position]) -> set[Position]:
        """Return the lines on which the functions around lines return next."""
        known = [self.lines[at] for at in positions if at in self.lines]
        return {(near.cell, near.returns) for near in known if near.returns is not None}

    def list_all_around(self, steps: Iterable[int]) -> list[Position]:
        """Return the lines of steps, and the outermost lines from which they were called."""
        return [at for n in steps for at in self.list_around(n)]

    def add_sizes(self, lines: set[Position]) -> set[Position]:
        """Return lines with those that set the sizes that they read."""
        known = [self.lines[at] for at in lines if at in self.lines]
        return lines | {(each.cell, n) for each in known for n in each.sizes}

    def list_weights(self, step: int) -> list[str]:
        """Return the paths of the weights that a step takes as they are."""
        return [self.parameters[n] for n in self.steps[step].sources if n in self.parameters]

    def list_positions(self, numbers: Iterable[int]) -> tuple[Position, ...]:
        """Return the lines of steps, in order."""
        found = (self.get_position(number) for number in numbers)
        return sort_positions(at for at in found if at is not None)

    def get_position(self, number: int) -> Position | None:
        """Return the line of a step; None if it is in no line of the submission."""
        step = self.steps[number]
        line = parse_position(step.line)
        return None if line is None else (parse_position(step.cell), line)

    def list_around(self, number: int) -> list[Position]:
        """Return the line of a step, and the outermost line from which it was called."""
        step = self.steps[number]
        lines = map(parse_position, (step.line, step.outer))
        return [(parse_position(step.cell), line) for line in lines if line is not None]


def walk(starts: Iterable[Node], follow: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """Return some nodes, and all that follow from them."""
    todo, seen = list(starts), set[Node]()
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += follow(node)
    return seen


def read_trace(reply: TraceReply, values: Tensor) -> Flow:
    """Return the flow of a trace. Raises BadTrace if steps, shapes and values do not match."""
    steps = reply.steps
    if len(steps) > MAX_STEPS or values.dim() != 1 or str(values.dtype) != "torch.float64":
        raise BadTrace
    if any(not -1 < n < len(steps) for n in reply.returned):
        raise BadTrace
    recorded = {each.number: each for each in _iter_recorded(steps, values)}
    lines = {(each.cell, each.line): each for each in reply.lines}
    made = {each.path: each.lines for each in reply.made}
    shared = tuple(zip(reply.shared[::2], reply.shared[1::2], strict=False))
    return Flow(steps, reply.returned, recorded, lines, reply.ends, made, shared)


def _iter_recorded(steps: tuple[TracedStep, ...], values: Tensor) -> Iterator[Recorded]:
    offset = 0
    for number, step in enumerate(steps):
        if any(not -1 < source < number for source in step.sources):
            raise BadTrace
        if not step.kept:
            continue
        if len(step.shape) > 8 or any(not -1 < n <= MAX_SIZE for n in step.shape):
            raise BadTrace
        size = math.prod(step.shape)
        if offset + size > values.numel():
            raise BadTrace
        yield Recorded(number, step.shape, values[offset : offset + size])
        offset += size
    if offset != values.numel():
        raise BadTrace
