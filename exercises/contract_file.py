"""Read an exercise from its folder: its contract is in `contract.toml`, and no code is run.

    title = "Causal attention"
    name = "CausalAttention"           # what a submission defines
    capabilities = ["causal", "batch", "stable"]

    [arguments]                        # of the constructor, in order: the quantity that each takes
    d_in = "d_in"
    qkv_bias = { quantity = "bias", default = false, optional = true }

    [parameters]                       # what is stored where
    "W_query.weight" = "W_q"

The keys are the fields of `Exercise` and `Contract`, and the type of a field says what may be
written: a field that is added there is a key here. `parameters` are the contract's mappings.
Members of an enumeration are written in lower case. Capabilities that follow from the rest of the
contract need not be listed: see `properties.contracts.implied_capabilities`.
"""

import functools
import json
import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from headcheck.exercises.contract_checks import Problem, find_problems, find_wrongly_waived, suggest
from headcheck.exercises.exercise import BadContract, Exercise
from headcheck.exercises.toml_lines import Place, Table, parse, read_text
from headcheck.properties.contracts.contract import Argument, Capability, Contract, Entry
from headcheck.properties.contracts.implied_capabilities import ROLES, complete_capabilities
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.terms.call_form import USUAL, CallForm
from headcheck.properties.terms.group import PropertyGroup
from headcheck.properties.terms.size_rules import BadSizes, SizeRules, parse_sizes

CONTRACT_FILE = "contract.toml"
MOST_POINTS = 1e6
"""the most points of anything that a file gives points; beyond, a sum has no exact hundredths"""
TEXT_FILES: Mapping[str, str] = {
    "statement.md": "what students read",
    "hints.md": "a numbered list of hints",
}
"""the other files of the folder, and the content of each; few commands need the solution"""
NO_CONTRACT = "there is no such file: an exercise is a folder with a contract"
SECONDS = ("call_s", "idle_s", "read_s", "import_s", "total_s")
COUNTS = (
    "endless_calls", "cpu_s", "memory", "threads", "open_files", "scratch", "source", "reply",
    "replies",
)  # fmt: skip
LIMITS: Mapping[str, type] = dict.fromkeys(SECONDS, float) | dict.fromkeys(COUNTS, int)
"""the fields of the grader's `Limits`, which no exercise may import, with their types"""
FIELD_NAMES: Mapping[str, str] = {"parameters": "mappings"}
"""keys whose names differ from those of their fields"""
NOT_WRITTEN = {"slug", "contract", "folder", "source", "depth", "inputs"}
"""fields without a key; the inputs of a call form are the contract's `call`"""
SLUG = re.compile(r"[A-Za-z0-9_-]+")
WRITTEN: Mapping[object, str] = {
    str: "a text in quotes",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}
"""how to write a value of each type, for messages"""
USUAL_CALLS = (("x",), ("x", "mask"))
"""the inputs of calls in the usual form"""
OTHER_NAMES = {"Value": int | float | bool | str}
"""names that a contract's module imports only for the type checker, with types that TOML has"""


def refuse(problems: Iterable[Problem], place: Place) -> None:
    """Raise BadContract for the first problem of a contract at this place, if there is one."""
    for keys, wrong, problem in problems:
        raise place.enter(*keys).fail(problem, wrong)


def make_place(exercise: Exercise, *keys: str) -> Place:
    """Return the place of a value in the contract file of an exercise."""
    return Place(exercise.folder / CONTRACT_FILE, exercise.source, keys)


# ---------------------------------------------------------------------------- values


def _convert(value: object, kind: Any, place: Place) -> Any:
    """Return a value of TOML as one of this type. Raises BadContract."""
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choose(value, {each.name.lower(): each for each in kind}, place)
    if isinstance(kind, type) and is_dataclass(kind):
        return _read_record(value, kind, place)
    if origin in (tuple, frozenset):
        if not isinstance(value, list):
            raise place.fail_type(value, "a list in square brackets")
        return origin(_convert(each, parts[0], place) for each in value)
    if origin is Mapping:
        return _convert_table(value, parts[0], parts[1], place)
    kinds = [each for each in parts or (kind,) if each is not NoneType]
    if not all(each in WRITTEN for each in kinds):
        return _convert(value, kinds[0], place)
    allowed = {*kinds, int} if float in kinds else set(kinds)  # a whole number is a number, too
    if type(value) not in allowed:
        raise place.fail_type(value, " or ".join(WRITTEN[each] for each in kinds))
    if isinstance(value, float) and not math.isfinite(value):
        raise place.fail(f"must be a finite number, not {value}")
    return value


def _convert_table(value: object, key_kind: Any, kind: Any, place: Place) -> Mapping[Any, Any]:
    """Return a table whose keys are names, or members of an enumeration."""
    table, known = _ensure_table(value, place), None
    if key_kind is not str:
        known = {each.name.lower(): each for each in key_kind}
        _refuse_unknown(table, known, place)
    values = {key: _convert(each, kind, place.enter(key)) for key, each in table.items()}
    return values if known is None else {known[key]: each for key, each in values.items()}


def _choose(value: object, known: Mapping[str, Any], place: Place) -> Any:
    """Return the value of a name. Raises BadContract with the nearest name."""
    if not isinstance(value, str):
        raise place.fail_type(value, WRITTEN[str])
    if value not in known:
        key = ".".join(place.keys)
        raise place.fail(f"`{key}` knows no {value!r}; {suggest(value, known)}", value)
    return known[value]


def _ensure_table(value: object, place: Place) -> Table:
    if not isinstance(value, dict):
        raise place.fail_type(value, "a table")
    return value


# ---------------------------------------------------------------------------- records


@functools.cache
def _get_types(kind: type) -> Mapping[str, Any]:
    """Return the types of the fields of a record, by name."""
    return get_type_hints(kind, localns=OTHER_NAMES)


def list_fields(kind: type) -> Mapping[str, Field[Any]]:
    """Return the fields of a record that are written, by their keys."""
    keys = {name: key for key, name in FIELD_NAMES.items()}
    return {
        keys.get(each.name, each.name): each
        for each in fields(kind)
        if each.name not in NOT_WRITTEN
    }


def _read_fields(table: Table, kind: type, place: Place) -> dict[str, Any]:
    """Return the fields of a record that a table has; it may have others. Raises BadContract."""
    types, found = _get_types(kind), {}
    for key, field in list_fields(kind).items():
        if key in table:
            read = READERS.get((kind, key), functools.partial(_convert, kind=types[field.name]))
            found[field.name] = read(table[key], place=place.enter(key))
        elif field.default is MISSING and field.default_factory is MISSING:
            raise place.fail(f"there is no `{key}`: add it")
    return found


def _refuse_unknown(table: Table, known: Collection[str], place: Place) -> None:
    for key in table:
        if key not in known:
            raise place.enter(key).fail(f"there is no key `{key}`; {suggest(key, known)}")


def _read_record(value: object, kind: type, place: Place) -> Any:
    table = _ensure_table(value, place)
    _refuse_unknown(table, list_fields(kind), place)
    return kind(**_read_fields(table, kind, place))


def _read_named(value: object, kind: type, name: str, main: str, place: Place) -> tuple[Any, ...]:
    """Return records from a table of names, each with its main field or a table of its fields."""
    records = []
    for key, each in _ensure_table(value, place).items():
        own = each if isinstance(each, dict) else {main: each}
        if name in own:
            raise place.enter(key, name).fail(f"there is no key `{name}`: it is already `{key}`")
        records.append(_read_record({name: key, **own}, kind, place.enter(key)))
    return tuple(records)


def _read_arguments(value: object, place: Place) -> tuple[Argument, ...]:
    return _read_named(value, Argument, "name", "quantity", place)


def _read_parameters(value: object, place: Place) -> tuple[ParameterMapping, ...]:
    for key, each in _ensure_table(value, place).items():
        if isinstance(each, dict) and not each.keys() & list_fields(ParameterMapping).keys():
            path = ".".join((key, *each))
            raise place.enter(key).fail(f'a path with dots is written in quotes: "{path}"')
    return _read_named(value, ParameterMapping, "path", "holds", place)


def _read_holds(value: object, place: Place) -> tuple[str, ...]:
    """Return the parameters that a tensor holds; a single one needs no list."""
    held: tuple[str, ...] = _convert(
        [value] if isinstance(value, str) else value, tuple[str, ...], place
    )
    return held


def _read_sizes(value: object, place: Place) -> SizeRules:
    """Return rules for sizes from a text such as "heads>=2"."""
    try:
        return parse_sizes(_convert(value, str, place))
    except BadSizes as error:
        raise place.fail(str(error)) from None


def _read_transfer(value: object, place: Place) -> tuple[Contract, Contract]:
    table, known = _ensure_table(value, place), ("source", "target")
    _refuse_unknown(table, known, place)
    for key in known:
        if key not in table:
            raise place.fail(f"there is no [{'.'.join(place.keys)}.{key}]: add this table")
    source, target = (_read_contract(table[key], place.enter(key)) for key in known)
    return source, target


def _read_points(value: object, place: Place) -> Mapping[PropertyGroup, float]:
    points = _convert_table(value, PropertyGroup, float, place)
    for group, worth in points.items():
        if not 0 <= worth <= MOST_POINTS:
            text = f"must be from 0 to {MOST_POINTS:.0f}, not {worth}"
            raise place.enter(group.value).fail(text)
    return points


def _read_limits(value: object, place: Place) -> Mapping[str, float]:
    table = _ensure_table(value, place)
    _refuse_unknown(table, LIMITS, place)
    limits = {key: _convert(each, LIMITS[key], place.enter(key)) for key, each in table.items()}
    for key, limit in limits.items():
        if limit <= 0:
            raise place.enter(key).fail(f"must be more than 0, not {limit}")
    return limits


READERS: Mapping[tuple[type, str], Callable[..., Any]] = {
    (Exercise, "points"): _read_points,
    (Exercise, "limits"): _read_limits,
    (Argument, "fields"): _read_arguments,
    (Contract, "arguments"): _read_arguments,
    (Contract, "variables"): _read_arguments,
    (Contract, "parameters"): _read_parameters,
    (Contract, "transfer"): _read_transfer,
    (Contract, "size_rules"): _read_sizes,
    (ParameterMapping, "holds"): _read_holds,
}
"""readers for keys whose values in the file differ from the types of their fields"""


def _read_contract(value: object, place: Place, others: Collection[str] = ()) -> Contract:
    """Return the contract in a table, which may have other keys. Raises BadContract."""
    table = _ensure_table(value, place)
    _refuse_unknown(table, {*list_fields(Contract), *others}, place)
    contract = Contract(**_read_fields(table, Contract, place))
    if contract.transfer is not None:  # the weights to be moved are those of the source
        contract = replace(contract, mappings=contract.mappings or contract.transfer[0].mappings)
    contract = replace(contract, call_form=_complete_call_form(contract, table))
    refuse(find_problems(contract), place)
    contract = replace(contract, capabilities=complete_capabilities(contract))
    if contract.size_rules is None:
        return contract
    try:
        return contract.with_sizes(contract.size_rules)
    except BadSizes as error:
        raise place.enter("size_rules").fail(str(error)) from None


def expect_call_form(contract: Contract) -> CallForm:
    """Return the form of a call if the file states none: usual, except for the inputs' order."""
    usual = contract.entry is Entry.TRANSFER or contract.call in USUAL_CALLS
    usual |= contract.entry is Entry.FUNCTION and not set(ROLES) & set(contract.call)
    return USUAL if usual else CallForm(inputs=contract.call)


def _complete_call_form(contract: Contract, table: Table) -> CallForm:
    """Return the form of a call, with the inputs of the contract's `call`."""
    if "call_form" not in table:
        return expect_call_form(contract)
    return replace(contract.call_form, inputs=contract.call)


# ---------------------------------------------------------------------------- folders


def names_folder(name: str) -> bool:
    """Return whether a name is an exercise's folder, or its contract file, rather than a slug."""
    return Path(name).name != name or (Path(name) / CONTRACT_FILE).is_file()


def load_exercise(folder: Path) -> Exercise:
    """Return the exercise in a folder: the same object until its contract file changes.

    Raises BadContract.
    """
    folder = folder.expanduser().resolve()
    folder = folder.parent if folder.name == CONTRACT_FILE else folder
    text = read_text(folder / CONTRACT_FILE, NO_CONTRACT)
    for name, holds in TEXT_FILES.items():
        if not (folder / name).is_file():
            raise BadContract(f"{folder / name}, line 1: there is no such file: write {holds}")
    return read_exercise(folder, text)


def load_contract(path: Path) -> Contract:
    """Return the contract in a file, or in a folder with one, without its exercise.

    Without a statement it is unknown what else the class accepts and refuses. Properties about that
    apply only if `stated` is listed, and those about 16 bits only if `half` is listed. Raises
    BadContract.
    """
    path = path.expanduser()
    path = path / CONTRACT_FILE if path.is_dir() else path
    if not path.is_file():
        raise BadContract(f"{path}: there is no such file: name a contract file, or its folder")
    place = Place(path, read_text(path, NO_CONTRACT))
    table = parse(place)
    contract = _read_contract(table, place, list_fields(Exercise))
    refuse(find_wrongly_waived(contract), place)
    listed = table.get("capabilities", ())
    stated, half = (each.name.lower() in listed for each in (Capability.STATED, Capability.HALF))
    unsaid = {Capability.STATED: not stated, Capability.HALF: not (stated or half)}
    lost = {each for each, is_unsaid in unsaid.items() if is_unsaid}
    return replace(contract, capabilities=contract.capabilities - lost)


@functools.cache
def read_exercise(folder: Path, text: str) -> Exercise:
    """Return the exercise of a folder whose contract file has this text. Raises BadContract.

    Unpickling an exercise calls this, so that each process has only one object of it.
    """
    place = Place(folder / CONTRACT_FILE, text)
    if not SLUG.fullmatch(folder.name):
        allowed = "name the folder with letters, digits, _ and -"
        raise place.fail(f"{folder.name!r} cannot name an exercise: {allowed}")
    table = parse(place)
    contract = _read_contract(table, place, others=list_fields(Exercise))
    own = _read_fields(table, Exercise, place)
    if own.get("cases", 1) < 1:
        raise place.enter("cases").fail(f"must be at least 1, not {own['cases']}")
    return Exercise(slug=folder.name, contract=contract, folder=folder, source=text, **own)


def omit_points(text: str) -> str:
    """Return a contract without its points as normalised text; "" if there is no contract."""
    if not text:
        return ""
    table = {key: value for key, value in tomllib.loads(text).items() if key != "points"}
    return json.dumps(table, default=str)  # in the order in which it is written: that may count
