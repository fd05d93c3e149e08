"""What every mistake, and every pair of them, gives on one input: worked out once for everybody.

Theory ------ A submission is compared with thousands of recipes on the first case that it got
wrong. What these give there does not depend on the submission, and the cases are always the same.
So it is kept, as rows of numbers, and an answer is compared with all rows at once. What comes near
is then looked at as if it had been followed alone (`properties.mistakes.diagnosis`): a menu only
spares what cannot explain it.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from properties.mistakes.catalogue import Misconception
from properties.mistakes.pipeline import Change, Given, Kitchen, Recipe
from properties.mistakes.steps.scores import lowest, no_nan, raised_by
from properties.oracle import digest

WAYS = 4
"""how many ways to make a mistake are tried beside another one"""

HABITS: tuple[Change, ...] = (
    {"hide": lowest},
    {"hide": raised_by(-1e9)},
    {"use": no_nan},
)
"""What else people do where a row with nothing but −∞ gives NaN."""

KEPT = 16
"""so many menus, the ones used last: a few megabytes each, 25 for a layer of GPT-2"""

Names = tuple[Misconception, ...]
Candidate = tuple[Names, Change]
Answer = tuple[Tensor, ...]
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Order:
    """Which input, what is right there, and which mistakes are known; one at a time or in pairs."""

    given: Given = field(compare=False)
    base: Recipe
    known: Names
    pairs: bool
    content: bytes
    """of what is given"""


def order(given: Given, base: Recipe, known: Sequence[Misconception], *, pairs: bool) -> Order:
    """What a menu is asked for."""
    tensors = [given.x, given.may_attend, *(t for _, t in given.parameters.items())]
    rest = given.heads, given.scale, given.context_length, given.causal, given.wanted
    names = [name for name, _ in given.parameters.items()]
    return Order(given, base, tuple(known), pairs, digest(*tensors) + repr((rest, names)).encode())


@dataclass(frozen=True, eq=False)
class Menu:
    """Candidates, and by the shapes of an answer the rows of those that give such a one."""

    candidates: tuple[Candidate, ...]
    rows: Mapping[Shapes, tuple[Tensor, Tensor]]
    """by number, whose a row is; and the numbers of all tensors, end to end"""

    def near(self, answer: Answer, tolerances: Sequence[float]) -> Iterator[Candidate]:
        """Those that give an answer but for rounding; what is not finite, is it in both."""
        owners, rows = self.rows.get(_shapes(answer), (torch.empty(0), torch.empty(0, 0)))
        if not len(owners):
            return
        numbers = _flat(answer)
        sizes = torch.tensor([t.numel() for t in answer])
        allowed = torch.tensor(tolerances, dtype=torch.float64).repeat_interleave(sizes)
        finite = numbers.isfinite()
        close = ((rows - numbers).abs() <= allowed) | ~finite
        alike = (rows.isfinite() == finite).all(1) & close.all(1)
        for number in owners[alike].unique().tolist():
            yield self.candidates[number]


@functools.lru_cache(maxsize=KEPT)
def menu(wanted: Order) -> Menu:
    """Follow every candidate on an input."""
    kitchen = Kitchen(wanted.given, wanted.base)
    make = _pairs if wanted.pairs else _singles
    candidates = tuple(make(kitchen, wanted))
    found: dict[Shapes, tuple[list[int], list[Tensor]]] = {}
    for number, (_, change) in enumerate(candidates):
        for answer in _answers(kitchen, wanted.base, change):
            owners, rows = found.setdefault(_shapes(answer), ([], []))
            owners.append(number)
            rows.append(_flat(answer))
    stacked = {
        form: (torch.tensor(owners), torch.stack(rows)) for form, (owners, rows) in found.items()
    }
    return Menu(candidates, stacked)


def _singles(kitchen: Kitchen, wanted: Order) -> Iterator[Candidate]:
    for each in wanted.known:
        for change in each.changes:
            yield (each,), change


def _pairs(kitchen: Kitchen, wanted: Order) -> Iterator[Candidate]:
    """Two mistakes in different steps."""
    right = kitchen.follow(wanted.base)
    assert right is not None, "the right recipe can be followed on every case"
    common = [
        (each, change)
        for each in wanted.known
        for change in each.changes[:WAYS]
        if not each.rare and _matters(kitchen, wanted.base.with_(change), right.answer)
    ]
    for (one, change), (other, another) in itertools.combinations(common, 2):
        if one is not other and not change.keys() & another.keys():
            yield (one, other), {**change, **another}


def _matters(kitchen: Kitchen, recipe: Recipe, right: Answer) -> bool:
    """Whether a recipe gives something else."""
    steps = kitchen.follow(recipe)
    return steps is None or not all(map(torch.equal, steps.answer, right))


def _answers(kitchen: Kitchen, base: Recipe, change: Change) -> Iterator[Answer]:
    """What a recipe with a change gives; and with what people do about NaN, where there is some."""
    steps = kitchen.follow(base.with_(change))
    if steps is None:
        return
    yield steps.answer
    if not is_finite(steps.answer):
        for recipe in with_habits(base, change):
            after = kitchen.follow(recipe)
            if after is not None:
                yield after.answer


def with_habits(base: Recipe, change: Change) -> Iterator[Recipe]:
    """A recipe with a change, and with what people do about NaN in a step that it leaves alone."""
    for habit in HABITS:
        if not habit.keys() & change.keys():
            yield base.with_({**change, **habit})


def is_finite(answer: Iterable[Tensor]) -> bool:
    """Whether there is no NaN and no infinity."""
    return all(math.isfinite(t.sum()) for t in answer)


def _shapes(answer: Answer) -> Shapes:
    return tuple(tuple(t.shape) for t in answer)


def _flat(answer: Answer) -> Tensor:
    return torch.cat([t.detach().flatten().to(torch.float64) for t in answer])
