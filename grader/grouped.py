"""Group items by a key, whatever their order."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


def group_by(items: Iterable[Item], get_key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by their keys, in the order in which the keys first occur."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(get_key(item), []).append(item)
    return groups
