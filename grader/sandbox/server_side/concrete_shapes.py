"""Keep torch from importing sympy (0.4 s of processor time), which plain shapes do not need.

A gradient with a cotangent and many operations on the meta device compare shapes by functions of a
module that computes with symbols, too, and imports sympy for them. A stand-in has those functions for
plain numbers. Whatever else is asked of it, such as a comparison of symbols, has torch's own module
imported after all.

This depends on internals of torch since 2.6. Where they differ, torch's own module is imported as
before, and only time is lost.
"""

import functools
import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

REPLACED = "torch.fx.experimental.symbolic_shapes"


class ConcreteShapes(ModuleType):
    """Stands in for torch's module, and imports it when something else is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what is asked of every module, by `inspect` for instance
            raise AttributeError(name)
        return getattr(load_replaced(), name)


def bypass_sympy() -> None:
    """Put the stand-in in place, unless torch's own module is already there."""
    module = ConcreteShapes(REPLACED)
    module.sym_eq = sym_eq
    for name in ("expect_true", "guard_or_false", "guard_or_true", "statically_known_true"):
        setattr(module, name, functools.partial(decide, name))
    for name, combine in (("sym_and", all), ("sym_or", any)):
        setattr(module, name, functools.partial(join, name, combine))
    sys.modules.setdefault(REPLACED, module)


def load_replaced() -> ModuleType:
    """Return torch's own module; the first time, import it in place of the stand-in."""
    if isinstance(sys.modules.get(REPLACED), ConcreteShapes):
        del sys.modules[REPLACED]
    return importlib.import_module(REPLACED)


def decide(name: str, condition: Any, *more: Any) -> Any:
    """Return a condition that holds or does not; let torch decide about any other."""
    return condition if type(condition) is bool else getattr(load_replaced(), name)(condition, *more)


def join(name: str, combine: Callable[[tuple[bool, ...]], bool], *conditions: Any) -> Any:
    """Join conditions by `all` or `any`, if each holds or does not."""
    if all(type(condition) is bool for condition in conditions):
        return combine(conditions)
    return getattr(load_replaced(), name)(*conditions)


def sym_eq(one: Any, other: Any) -> Any:
    """Return whether two sizes, or two shapes, are equal."""
    pair = [tuple(each) if isinstance(each, (tuple, list)) else (each,) for each in (one, other)]
    if all(type(size) is int for shape in pair for size in shape):
        return pair[0] == pair[1]
    return load_replaced().sym_eq(one, other)
