"""Crashes due to a name or an attribute that does not exist."""

import ast
import difflib
import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from headcheck.grader.sandbox.sentences import Finding, conclude
from headcheck.grader.sandbox.worker.configs import Config
from headcheck.grader.sandbox.worker.crashes import things
from headcheck.grader.sandbox.worker.crashes.scene import Patterns, Scene
from headcheck.grader.sandbox.worker.crashes.values import UNKNOWN, is_tensor, list_attributes

MODULES = {
    "F": "torch.nn.functional",
    "einops": "einops",
    "functional": "torch.nn.functional",
    "math": "math",
    "nn": "torch.nn",
    "np": "numpy",
    "numpy": "numpy",
    "torch": "torch",
}
"""modules by the names under which they are usually imported"""
MODULE_INTERNALS = frozenset(vars(nn.Module()))
MIN_SIMILARITY = 0.75
MAX_LISTED = 8


def explain_name(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a name is not defined."""
    name, instance = match["name"], scene.instance
    if not isinstance(scene.node, ast.Name) or scene.node.id != name:
        return None
    if name in MODULES:
        whole = f" ({MODULES[name]})" * (name != MODULES[name])
        return conclude("not_imported", f"`{name}`", whole)
    if instance is not UNKNOWN and name in list_attributes(instance):
        return conclude("self_forgotten", f"`{name}`")
    function = scene.function
    inside = isinstance(function, ast.FunctionDef) and function.name != "__init__"
    if inside and instance is not UNKNOWN and name in scene.list_constructor_arguments(instance):
        return conclude("constructor_argument", f"`{name}`")
    known = [name for scope in scene.values.scopes for name in scope if name != "__builtins__"]
    return conclude("undefined_name", f"`{name}`", suggest(name, known))


def explain_unset(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a local variable has no value yet."""
    if not isinstance(scene.node, ast.Name) or scene.node.id != match["name"]:
        return None
    return conclude("unset_variable", f"`{match['name']}`")


def explain_attribute(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that an attribute does not exist."""
    name = match["name"]
    if name in MODULE_INTERNALS and _is_uninitialised(scene):
        return conclude("no_super_init")
    if not isinstance(scene.node, ast.Attribute) or scene.node.attr != name:
        return None
    base, owner = scene.node.value, scene.find(scene.node.value)
    if isinstance(owner, nn.Module):
        return _explain_module_attribute(scene, owner, name)
    if isinstance(owner, Config):
        return _explain_config(owner, name)
    if is_tensor(owner):
        near = suggest(name, dir(Tensor))
        return conclude("unknown_attribute", f"a tensor has no `{name}`", near)
    if not scene.direct:
        return None
    if type(owner).__name__ == match["type"] and (own := list_attributes(owner)):
        known = [*own, *vars(type(owner))]
        return conclude("unknown_attribute", f"`{name}`", suggest(name, known))
    if match["type"] == "NoneType":
        return things.explain_none(scene, base)
    return things.explain_thing(scene, base, match["type"], f"has no `{name}`")


def _is_uninitialised(scene: Scene) -> bool:
    """Whether the attribute was read from a module that is not initialised yet."""
    if scene.raiser is None or scene.raiser.f_code is not nn.Module.__getattr__.__code__:
        return False
    return "_parameters" not in vars(scene.raiser.f_locals["self"])


def explain_library_attribute(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a module of torch does not have a function of this name."""
    module = scene.find(scene.node.value) if isinstance(scene.node, ast.Attribute) else None
    if not isinstance(module, ModuleType):
        return None
    near = suggest(match["name"], vars(module))
    return conclude("unknown_attribute", f"`{match['module']}` has no `{match['name']}`", near)


def explain_uninitialised(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a module was given a part before it was initialised."""
    if scene.direct or scene.node is None:
        return None
    return conclude("no_super_init", scene.write(scene.node))


def explain_key(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a config or a dictionary does not hold a value."""
    if not isinstance(scene.node, ast.Subscript):
        return None
    owner = scene.find(scene.node.value)
    if not isinstance(owner, Config) or match["name"] in vars(owner):
        return None
    return _explain_config(owner, match["name"])


def _explain_config(owner: Config, name: str) -> Finding:
    held = list(list_attributes(owner))
    listed = ", ".join(f"`{each}`" for each in held[:MAX_LISTED])
    return conclude("config_lacks", f"`{name}`", suggest(name, held) or f"; it holds {listed}")


def _explain_module_attribute(scene: Scene, owner: nn.Module, name: str) -> Finding | None:
    if any(name in vars(each) for each in type(owner).__mro__):
        return None  # a property, which lacks something itself
    is_own = not type(owner).__module__.startswith("torch.")
    said = f"`{name}`" if is_own else f"{type(owner).__name__} has no `{name}`"
    if is_own and name in scene.list_constructor_arguments(owner):
        return conclude("argument_not_kept", said)
    own = [*list_attributes(owner), *vars(type(owner))]
    return conclude("unknown_attribute", said, suggest(name, own))


def suggest(name: str, known: Iterable[Any]) -> str:
    """Return `; did you mean …?` with the closest known name, if one is close enough."""
    names = (each for each in known if isinstance(each, str) and each != name)
    open_names = (each for each in names if name.startswith("_") or not each.startswith("_"))
    plain = {each.lower(): each for each in open_names}
    by_case = plain.get(name.lower())
    exchanged = [each for each in plain if sorted(each) == sorted(name.lower())]
    near = difflib.get_close_matches(name.lower(), plain, 1, MIN_SIMILARITY)
    found = [*exchanged, *near] if len(name) > 2 else []
    best = by_case or (plain[found[0]] if found else None)
    return "" if best is None else f"; did you mean `{best}`?"


PATTERNS: Patterns = {
    NameError: {r"name '(?P<name>\w+)' is not defined": explain_name},
    UnboundLocalError: {r"cannot access local variable '(?P<name>\w+)' where": explain_unset},
    AttributeError: {
        r"module '(?P<module>torch[\w.]*)' has no attribute "
        r"'(?P<name>\w+)'": explain_library_attribute,
        r"'(?P<type>[\w.]+)' object has no attribute '(?P<name>\w+)'": explain_attribute,
        r"cannot assign (?P<what>\w+) before Module.__init__\(\) call": explain_uninitialised,
    },
    KeyError: {r"'(?P<name>\w+)'$": explain_key},
}
