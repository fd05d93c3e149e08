"""Keep torch from importing its compiler (dynamo), which no submission can use.

On the meta device torch computes shapes in Python functions, each wrapped so that dynamo skips it.
The first call of such a wrapper imports dynamo, which takes 0.7 s of processor time at every start,
and stores the function that dynamo returns in an attribute. A wrapper that finds this attribute
imports nothing, so each function is stored there in advance as its own replacement.

This depends on internals of torch since version 2.6. In a version with other internals, no wrapper
is found, dynamo is imported as usual, and only time is lost.
"""

import gc
from types import FunctionType

DYNAMO_ATTRIBUTE = "__dynamo_disable"


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
