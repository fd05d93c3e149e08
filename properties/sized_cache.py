"""A cache of results within a process, limited by the total count of numbers in the results."""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
EACH = 1024
"""the overhead of each result, counted in numbers"""
LARGEST_SHARE = 16
"""the n for which a result is not kept if it takes more than 1/n of the room"""


class SizedCache(Generic[T]):
    """Results by key; the oldest are dropped when the results together hold too many numbers."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.results: dict[Hashable, tuple[T, int]] = {}
        self._turn = threading.Lock()

    def get_or_make(self, key: Hashable, make: Callable[[], T], count: Callable[[T], int]) -> T:
        """Return the result of this key; `count` returns how many numbers a new result holds."""
        if (known := self.results.get(key)) is not None:
            return known[0]
        made = make()
        size = count(made) + EACH
        if size * LARGEST_SHARE > self.limit:
            return made
        with self._turn:
            if key in self.results:  # another thread was as slow
                return self.results[key][0]
            while self.size + size > self.limit:
                self.size -= self.results.pop(next(iter(self.results)))[1]
            self.results[key] = made, size
            self.size += size
        return made
