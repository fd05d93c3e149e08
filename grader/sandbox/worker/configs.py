"""The config objects that constructors are given."""

import ast
from collections.abc import KeysView, Mapping
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

from headcheck.grader.reading.config_fields import (
    find_config_class,
    find_config_defaults,
    is_list_of_words,
    list_computed_fields,
)
from headcheck.grader.reading.symbol_table import SymbolTable

MAKER = ""
"""the entry of an argument's value that names the definition that makes the object"""


class Config(SimpleNamespace):
    """A config object, whose values can be read as attributes and as items.

    An attribute that it lacks has the default that the submission's own config gives it. Only
    attributes do: `keys` and `in` know the stated fields alone.
    """

    __slots__ = ("_defaults",)  # no value among the others: `**config` unpacks these

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self._defaults: Mapping[str, Any] = {}

    def __getattr__(self, name: str) -> object:
        if name != "_defaults" and name in self._defaults:
            return self._defaults[name]
        raise AttributeError(f"'Config' object has no attribute '{name}'")

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy is made of: it has the same defaults."""
        return type(self), (), (dict(vars(self)), {"_defaults": dict(self._defaults)})

    def __getitem__(self, name: str) -> object:
        return vars(self)[name]

    def __contains__(self, name: object) -> bool:
        return name in vars(self)

    def get(self, name: str, default: object = None) -> object:
        """Return a value, or the default if there is none."""
        return vars(self).get(name, default)

    def keys(self) -> KeysView[str]:
        """Return the names of all values, so that `**config` unpacks them."""
        return vars(self).keys()


class StrictConfig(Config):
    """A config that raises for a missing field, even if the caller provides a default.

    In this way it shows which fields a class reads. A value of None marks a field that must be
    missing.
    """

    __slots__ = ("_absent",)

    def __init__(self, **values: Any) -> None:
        absent = {name for name, value in values.items() if value is None}
        super().__init__(**{n: v for n, v in values.items() if n not in absent})
        self._absent = absent

    def get(self, name: str, default: object = None) -> object:
        if name in vars(self) or name in self._absent:
            return vars(self).get(name, default)
        raise AttributeError(f"'Config' object has no attribute '{name}'")


def is_config(value: object) -> bool:
    """Whether an argument's value stands for a config, and not for another object."""
    return isinstance(value, dict) and MAKER not in value


def make_full_config(
    values: dict[str, Any], given: str, symbols: SymbolTable, module: ModuleType
) -> Config:
    """Make a config with what the submission's own config has in all fields but these."""
    names = frozenset(values)
    own = find_config_class(symbols, names)
    computed = {} if own is None else _compute_fields(own, values, module)
    return make_config(values, given, find_config_defaults(symbols, names), computed)


def _compute_fields(
    node: ast.ClassDef, values: Mapping[str, Any], module: ModuleType
) -> dict[str, Any]:
    """Return what the submission's own config computes from these values; nothing if it raises."""
    names = [name for name in list_computed_fields(node) if name not in values]
    try:
        own = getattr(module, node.name)(**values) if names else None
        return {name: getattr(own, name) for name in names}
    except Exception:
        return {}


def make_config(
    values: dict[str, Any],
    given: str,
    defaults: Mapping[str, Any],
    computed: Mapping[str, Any] = MappingProxyType({}),
) -> Config:
    """Make a config with attributes of its own, or of its class, as a class of constants has.

    A strict config has no defaults but lists of words, and all that is computed.
    """
    if given == "strictly":
        strict = StrictConfig(**values)
        words = {name: value for name, value in defaults.items() if is_list_of_words(value)}
        strict._defaults = {**words, **computed}
        return strict
    if given == "by class":
        config: Config = type("Config", (Config,), values)()
    else:
        config = Config(**values)
    config._defaults = {**defaults, **computed}
    return config
