"""Write a contract as the text of a `contract.toml`, the inverse of `exercises.contract_file`.

Only values that differ from the defaults are written, so a file is as short as one written by hand.
Implied capabilities (`properties.contracts.implied_capabilities`) are not written either. So
loading the file returns an equal contract only if the contract has all of them.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, is_dataclass, replace
from enum import Enum
from typing import Any

from headcheck.exercises.contract_file import expect_call_form, list_fields
from headcheck.exercises.exercise import Exercise
from headcheck.properties.contracts.contract import Argument, Contract
from headcheck.properties.contracts.implied_capabilities import IMPLIED
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.terms.size_rules import SizeRules

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
NAMED: Mapping[type, tuple[str, str]] = {
    Argument: ("name", "quantity"),
    ParameterMapping: ("path", "holds"),
}
"""records written as entries of a table: the field for the key, and the field that may be written
without a separate table"""
INLINE = NAMED.keys()


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of TOML: its values, and the tables in it."""

    values: Mapping[str, str]
    tables: Mapping[str, "_Table"]


def write_contract(exercise: Exercise) -> str:
    """Return the text of a contract file from which an equal exercise is read."""
    contract = _write_contract(exercise.contract)
    own = _write_record(exercise, Exercise, skipped={"title"})
    whole = _Table(
        {"title": _write_value(exercise.title), **contract.values, **own.values},
        {**contract.tables, **own.tables},
    )
    return "\n".join(_iter_lines(whole, ())).strip("\n") + "\n"


def _iter_lines(table: _Table, keys: tuple[str, ...]) -> Iterator[str]:
    if keys and (table.values or not table.tables):
        yield f"\n[{'.'.join(map(_write_key, keys))}]"
    for key, text in table.values.items():
        yield f"{key} = {text}"
    for key, inner in table.tables.items():
        yield from _iter_lines(inner, (*keys, key))


# ---------------------------------------------------------------------------- records


def _write_contract(contract: Contract) -> _Table:
    follows = {each for each, is_implied in IMPLIED.items() if is_implied(contract)}
    listed = replace(contract, capabilities=contract.capabilities - follows)
    skipped = {"call_form"} if contract.call_form == expect_call_form(contract) else set()
    if contract.transfer is not None and contract.mappings == contract.transfer[0].mappings:
        skipped |= {"parameters", "transfer"}
    table = _write_record(listed, Contract, skipped=skipped | {"transfer"})
    if contract.transfer is None:
        return table
    sides = dict(zip(("source", "target"), map(_write_contract, contract.transfer), strict=True))
    return _Table(table.values, {**table.tables, "transfer": _Table({}, sides)})


def _write_record(record: Any, kind: type, *, skipped: set[str] | frozenset[str]) -> _Table:
    """Return the fields of a record that differ from their defaults."""
    values: dict[str, str] = {}
    tables: dict[str, _Table] = {}
    for key, each in list_fields(kind).items():
        value = getattr(record, each.name)
        if key in skipped or _is_default(each, value):
            continue
        written = _write_field(value)
        if isinstance(written, _Table):
            tables[key] = written
        else:
            values[_write_key(key)] = written
    return _Table(values, tables)


def _is_default(field: Field[Any], value: object) -> bool:
    if field.default_factory is not MISSING:
        return bool(value == field.default_factory())
    return bool(value == field.default)


def _write_field(value: Any) -> "str | _Table":
    if isinstance(value, tuple) and value and isinstance(value[0], tuple(INLINE)):
        entries = (_iter_named(each, ()) for each in value)
        return _Table({key: text for lines in entries for key, text in lines}, {})
    if isinstance(value, SizeRules):
        return _write_value(str(value))
    if is_dataclass(value):
        return _write_record(value, type(value), skipped=frozenset())
    if isinstance(value, Mapping):
        return _Table({_write_name(key): _write_value(each) for key, each in value.items()}, {})
    return _write_value(value)


def _iter_named(record: Any, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the lines of an entry: a single line, or a line for each part of a nested entry."""
    name, main = NAMED[type(record)]
    keys = (*above, getattr(record, name))
    others = {
        key: getattr(record, each.name)
        for key, each in list_fields(type(record)).items()
        if key not in (name, main) and not _is_default(each, getattr(record, each.name))
    }
    inner = others.pop("fields", ())
    whole = {main: getattr(record, main), **others}
    if inner:
        yield from ((_join((*keys, key)), _write_value(each)) for key, each in whole.items())
        for each in inner:
            yield from _iter_named(each, (*keys, "fields"))
    elif others:
        texts = (f"{_write_key(key)} = {_write_value(each)}" for key, each in whole.items())
        yield _join(keys), f"{{ {', '.join(texts)} }}"
    else:
        yield _join(keys), _write_value(whole[main])


# ---------------------------------------------------------------------------- values


def _write_value(value: Any) -> str:
    if isinstance(value, Enum):
        return _write_value(value.name.lower())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, frozenset):
        return _write_value(sorted(each.name.lower() for each in value))
    if isinstance(value, tuple) and len(value) == 1 and value[0] in _PARAMETERS:
        return _write_value(value[0])  # a single parameter needs no list
    return f"[{', '.join(map(_write_value, value))}]"


_PARAMETERS = frozenset(f"{kind}_{letter}" for kind in "Wb" for letter in "qkvo")


def _write_name(key: Any) -> str:
    return _write_key(key.name.lower() if isinstance(key, Enum) else str(key))


def _write_key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else _write_value(key)


def _join(keys: tuple[str, ...]) -> str:
    return ".".join(map(_write_key, keys))
