"""Count the numbers that a call holds at any one time in the tensors that it makes.

Storages are counted rather than tensors, so a tensor and its views count once. Inputs do not count.
The count is taken after every operation of torch, while its results still exist. Memory that a
kernel uses internally is not counted.
"""

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from headcheck.grader.sandbox.worker.left_behind import UncompiledDispatchMode
from headcheck.grader.sandbox.worker.second_device import allow_biases


class HeldNumbers:
    """The new storages that still exist, and the most numbers that they ever held."""

    def __init__(self) -> None:
        self.most = 0
        self.given: set[int] = set()
        """the storages of what the caller passed in, which do not count"""
        self._storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self._total = 0

    def add(self, made: Sequence[Tensor]) -> None:
        """Count the storages of an operation's results together with those that still exist."""
        for tensor in made:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self.given:
                continue
            _, before = self._storages.get(key, (None, 0))
            numbers = storage.nbytes() // tensor.element_size()
            self._storages[key] = (StorageWeakRef(storage), numbers)
            self._total += numbers - before
        # Which ones are gone counts only where they would make it more than it ever was.
        if self._total > self.most:
            self._drop_expired()
            self.most = max(self.most, self._total)

    def count(self) -> int:
        """Return how many numbers are held now."""
        self._drop_expired()
        return self._total

    def _drop_expired(self) -> None:
        kept = {key: each for key, each in self._storages.items() if not each[0].expired()}
        self._storages, self._total = kept, sum(numbers for _, numbers in kept.values())


class _CountingMode(UncompiledDispatchMode):
    """Counts the results of every operation of torch."""

    def __init__(self, held: HeldNumbers) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.held = held

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        made = func(*args, **(kwargs or {}))
        tensors = (each for each in tree_leaves(made) if isinstance(each, Tensor))
        self.held.add([each for each in tensors if each.layout is torch.strided])
        return made


@contextlib.contextmanager
def count_held(is_counted: bool, given: Sequence[Tensor]) -> Iterator[HeldNumbers]:
    """If `is_counted`, count the numbers held in this context, except in the given tensors."""
    held = HeldNumbers()
    with go_on_counting(held if is_counted else None, given):
        yield held


@contextlib.contextmanager
def go_on_counting(held: HeldNumbers | None, given: Sequence[Tensor]) -> Iterator[None]:
    """In this context, add new tensors to those already held; with None, count nothing."""
    if held is None:
        yield
        return
    held.given |= {tensor.untyped_storage()._cdata for tensor in given}
    with allow_biases(), _CountingMode(held):
        yield
