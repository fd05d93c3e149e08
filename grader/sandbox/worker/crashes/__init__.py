"""The catalogue of crashes: from an exception, and the line that raised it, to the mistake.

Theory
------
An exception's text is what torch, or Python, found out; it is not what its author did wrong. With
the instruction that failed (`scene.py`) and what its operands were (`values.py`), it often follows.
Each entry of the catalogue is a type of exception, a pattern of its text, and a function that
looks at the instruction and says which sentence (`sentences.py`) is true of it, or that none is
certain: nothing is better than something wrong. So an entry never goes by the text alone where
the submission could have raised it: what it raises itself has no entry, and what is raised below
it only where what it called is torch's.

All this is beside the submission, and so is its result. The grader process takes from it the name
of a sentence and text to be shown, and trusts neither.
"""

import re
from collections.abc import Callable

from headcheck.grader.sandbox.worker.crashes import (
    axes,
    calls,
    names,
    products,
    shapes,
    surroundings,
    tensors,
    things,
)
from headcheck.grader.sandbox.worker.crashes.scene import LineLocator, Scene, observe
from headcheck.grader.sandbox.worker.crashes.sentences import Finding

MAX_TEXT = 2000
Explainer = Callable[[Scene, re.Match[str]], Finding | None]
Entry = tuple[type[Exception], str, Explainer]
CATALOGUE: tuple[Entry, ...] = (
    *names.PATTERNS,
    *things.PATTERNS,
    *calls.PATTERNS,
    *tensors.PATTERNS,
    *products.PATTERNS,
    *shapes.PATTERNS,
    *axes.PATTERNS,
    *surroundings.PATTERNS,
)


def explain_crash(error: BaseException, locate_line: LineLocator) -> Finding | None:
    """Explain why a submission crashed; None where that is not certain."""
    try:
        text = " ".join(str(error).split())[:MAX_TEXT]
        scene = observe(error, text, locate_line)
        return None if scene is None else _look_up(scene)
    except Exception:  # the objects looked at are the submission's, and may do anything
        return None


def _look_up(scene: Scene) -> Finding | None:
    for kind, pattern, explain in CATALOGUE:
        if scene.kind is kind and (match := re.match(pattern, scene.text)):
            found = explain(scene, match)
            if found is not None:
                return found
    return None
