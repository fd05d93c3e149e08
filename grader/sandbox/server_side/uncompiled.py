"""Torch's compiler left out where nothing is compiled.

On the meta device torch computes shapes in Python, and each of these functions first asks the
compiler to stay away. Asking imports it: 0.7 s of processor time, of every start, for a compiler
that no submission can use. But torch asks only functions that have no answer yet, so they are given
theirs: themselves, as they are.

This rests on how torch goes about it inside, from 2.6 on. Where it does otherwise nothing is found
here, the compiler is imported as before, and only time is lost.
"""

import gc
from types import FunctionType

DYNAMO_ATTRIBUTE = "__dynamo_disable"


def bypass_dynamo() -> int:
    """Answer for all functions that would ask; how many there are."""
    from torch import _compile

    asking = getattr(_compile, "_disable_dynamo", None)
    if asking is None:
        return 0
    code = asking(bypass_dynamo).__code__
    wrapped = [
        dict(zip(code.co_freevars, each.__closure__ or (), strict=True))["fn"].cell_contents
        for each in gc.get_objects()
        # Not isinstance: some of torch's objects warn when they are looked at more closely.
        if type(each) is FunctionType and each.__code__ is code
    ]
    for function in wrapped:
        if not hasattr(function, DYNAMO_ATTRIBUTE):
            setattr(function, DYNAMO_ATTRIBUTE, function)
    return len(wrapped)
