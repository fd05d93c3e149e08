"""Constructors of classes whose heads may share keys, so that none share, and the way back."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from headcheck.properties.binding.constructors import Constructor
from headcheck.properties.contracts.contract import Argument


def list_sharing(constructor: Constructor) -> list[str]:
    """Return the names of arguments and fields that say how many heads of keys there are."""
    every = (a for argument in constructor.arguments for a in (argument, *argument.fields))
    return [a.name for a in every if a.quantity == "kv_heads"]


def iter_unshared(constructors: Iterable[Constructor]) -> Iterator[Constructor]:
    """Yield those that say how many heads of keys there are, with as many as heads of queries."""
    for constructor in constructors:
        sharing = list_sharing(constructor)
        if sharing:
            own = rename_quantities(constructor.arguments, dict.fromkeys(sharing, "heads"))
            yield replace(constructor, arguments=own)


def rename_quantities(
    arguments: Iterable[Argument], quantities: Mapping[str, str]
) -> tuple[Argument, ...]:
    """Return arguments, and fields of a config, with other quantities, by their names."""
    return tuple(
        replace(
            each,
            quantity=quantities.get(each.name, each.quantity),
            fields=rename_quantities(each.fields, quantities),
        )
        for each in arguments
    )
