"""A trace as a graph: the steps of one call, and which of them rest on which.

A submission may send any trace, so its form is checked here.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from headcheck.grader.grading.places.matching import Recorded
from headcheck.grader.reading.feeding_lines import LineNeighbours
from headcheck.grader.sandbox.grader_side.replies import parse_position
from headcheck.grader.sandbox.operations import MadeWeight, TracedStep, TraceReply

MAX_STEPS = 4000
MAX_SIZE = 1 << 20
KERNELS = frozenset(
    {
        "scaled_dot_product_attention",
        "multi_head_attention_forward",
        "flex_attention",
        "_native_multi_head_attention",
    }
)
"""functions that compute all of attention: their scores and weights are not seen"""
_PRODUCTS = (
    "linear matmul __matmul__ __rmatmul__ bmm baddbmm mm addmm mv einsum tensordot inner dot "
    "bilinear conv1d"
)
PRODUCTS = KERNELS | frozenset(_PRODUCTS.split())
"""functions that multiply matrices"""
_LAYOUTS = (
    "view reshape transpose permute flatten unflatten swapaxes swapdims movedim moveaxis squeeze "
    "unsqueeze T mT t contiguous view_as reshape_as ravel"
)
LAYOUTS = frozenset(_LAYOUTS.split())
"""functions that only lay out the same numbers"""
MAX_SPAN = 11
"""the most lines between what is right and the next step if something was left out there"""
PARAMETER = "parameter "
GIVEN = ("input ", PARAMETER, "buffer ", "constant")
"""how the kinds of steps begin that are not computed"""
Position = tuple[int | None, int]


class BadTrace(Exception):
    """A submission sent something that is no trace."""


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
    shared: tuple[MadeWeight, ...]
    """weights of several paths, one after the other"""

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
        return _walk(starts, lambda n: (m for m in self.steps[n].sources if m not in stops))

    def walk_on(self, starts: Iterable[int], through: Collection[int] | None = None) -> set[int]:
        """Return these steps and all that rest on them, perhaps only through some steps."""
        return _walk(starts, lambda n: (m for m in self.uses[n] if through is None or m in through))

    def find_edge(self, starts: Iterable[int], stops: Collection[int]) -> set[int]:
        """Return those of some steps that others take."""
        return {n for each in starts for n in self.steps[each].sources if n in stops}

    def weighs_tokens(self, softmax: int) -> bool:
        """Whether a softmax is of products of what tokens give with what tokens give."""
        reached = self.walk_back(self.returned)
        from_tokens = self.walk_on(n for n in reached if self.kinds[n].startswith("input "))
        return self.kinds[softmax] in KERNELS or any(
            self.kinds[n] in PRODUCTS and len(from_tokens & {*self.steps[n].sources}) > 1
            for n in self.walk_back([softmax])
        )

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
        kinds = (self.kinds[n] for n in self.steps[step].sources)
        return [each.removeprefix(PARAMETER) for each in kinds if each.startswith(PARAMETER)]

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
        step, at = self.steps[number], self.get_position(number)
        outer = parse_position(step.outer)
        around = None if outer is None else (parse_position(step.cell), outer)
        return [each for each in (at, around) if each is not None]


def _walk(starts: Iterable[int], follow: Callable[[int], Iterable[int]]) -> set[int]:
    todo, seen = list(starts), set[int]()
    while todo:
        number = todo.pop()
        if number not in seen:
            seen.add(number)
            todo += follow(number)
    return seen


def sort_positions(positions: Iterable[Position]) -> tuple[Position, ...]:
    """Return positions without repetitions, in the order of the source."""
    return tuple(sorted(set(positions), key=lambda at: (at[0] or 0, at[1])))


def list_between(before: Iterable[Position], after: Iterable[Position]) -> set[Position]:
    """Return the lines from the last position before, to each of those after, if it is near."""
    begins, found = list(before), set[Position]()
    for cell, line in after:
        first = max((at[1] for at in begins if at[0] == cell and at[1] <= line), default=line)
        if line - first <= MAX_SPAN:
            found |= {(cell, each) for each in range(first, line + 1)}
    return found


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
    return Flow(steps, reply.returned, recorded, lines, reply.ends, made, reply.shared)


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
