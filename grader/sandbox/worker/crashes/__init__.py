"""The catalogue of crashes: from an exception, and the line that raised it, to the mistake.

An exception's text says what torch, or Python, noticed, and not what its author did
wrong. The instruction that failed (`scene.py`) and its operands (`values.py`) often show the
mistake. Each entry of the catalogue is a type of exception, a pattern of its text, and a function
that looks at the instruction and returns the sentence (`sentences.py`) that is true of it. It
returns none if no sentence is certain: no explanation is better than a wrong one. So an entry never
relies on the text alone if the submission could have raised it. Exceptions that the submission
itself raises have no entry, and those raised below it only if it called torch.

All this runs beside the submission. The grader process takes the name of a sentence and text to
show from it, and trusts neither.
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
    """Explain why a submission crashed; None if that is not certain."""
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
