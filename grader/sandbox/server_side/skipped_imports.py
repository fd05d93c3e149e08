"""Keep torch from importing what no submission can use: its compiler (dynamo), and sympy.

On the meta device torch computes shapes in Python functions, each wrapped so that dynamo skips it.
The first call of such a wrapper imports dynamo, which takes 0.7 s of processor time at every start,
and stores the function that dynamo returns in an attribute. A wrapper that finds this attribute
imports nothing, so each function is stored there in advance as its own replacement.

Before torch computes a gradient with a cotangent, it compares the shapes of the output and the
cotangent. The functions for this are in a module that imports sympy (0.3 s of processor time),
because it also handles symbolic shapes. A stand-in for that module has these functions for plain
numbers. If code needs anything else from the module, torch's own is imported.

This depends on internals of torch since version 2.6. In a version with other internals, no wrapper
is found, all is imported as usual, and only time is lost.
"""

import gc
import importlib
import sys
from types import FunctionType, ModuleType
from typing import Any

DYNAMO_ATTRIBUTE = "__dynamo_disable"
REPLACED = "torch.fx.experimental.symbolic_shapes"


def bypass_dynamo() -> int:
    """Store the attribute on all functions that have a wrapper, and return their number."""
    from torch import _compile

    wrap = getattr(_compile, "_disable_dynamo", None)
    if wrap is None:
        return 0
    code = wrap(bypass_dynamo).__code__
    wrapped = [
        dict(zip(code.co_freevars, each.__closure__ or (), strict=True))["fn"].cell_contents
        for each in gc.get_objects()
        # Not isinstance: it reads `__class__`, on which some of torch's objects warn.
        if type(each) is FunctionType and each.__code__ is code
    ]
    for function in wrapped:
        if not hasattr(function, DYNAMO_ATTRIBUTE):
            setattr(function, DYNAMO_ATTRIBUTE, function)
    return len(wrapped)


class ConcreteShapes(ModuleType):
    """Stands in for torch's module, and imports it when anything but these functions is needed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what is asked of every module, by `inspect` for instance
            raise AttributeError(name)
        return getattr(load_replaced(), name)

    @staticmethod
    def expect_true(condition: Any, *more: Any) -> Any:
        """Return a condition that is plainly true or false; let torch decide about any other."""
        if type(condition) is bool:
            return condition
        return load_replaced().expect_true(condition, *more)

    @staticmethod
    def sym_eq(one: Any, other: Any) -> Any:
        """Return whether two shapes are equal; let torch decide if they are not plain."""
        shapes = (one, other)
        if all(isinstance(shape, tuple) and _is_plain(shape) for shape in shapes):
            return one == other
        return load_replaced().sym_eq(one, other)


def _is_plain(shape: tuple[Any, ...]) -> bool:
    return all(type(size) is int for size in shape)


def bypass_sympy() -> None:
    """Put the stand-in in place, unless torch's own module has already been imported."""
    sys.modules.setdefault(REPLACED, ConcreteShapes(REPLACED))


def load_replaced() -> ModuleType:
    """Return torch's own module; on the first call, import it in place of the stand-in."""
    if isinstance(sys.modules.get(REPLACED), ConcreteShapes):
        del sys.modules[REPLACED]
    return importlib.import_module(REPLACED)
