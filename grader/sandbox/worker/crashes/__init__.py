"""The catalogue of crashes: from an exception, and the line that raised it, to the mistake.

An exception's text says what torch or Python noticed, and not what the submission's author did
wrong. The instruction that failed (`scene.py`) and its operands (`values.py`) often show the
mistake. Each entry of the catalogue consists of a type of exception, a pattern for its text, and a
function. The function looks at the instruction and returns the sentence (`sandbox/sentences.py`)
that is true of it. If no sentence is certainly true, it returns None: no explanation is better than
a wrong one. So an entry never relies only on the text if the submission itself could have raised
the exception. Exceptions that the submission itself raises are not explained. Exceptions raised in
code that it called are explained only if that code is torch's.

All this runs in the submission's process. The grader process receives the name of a sentence and
details to show with it, and trusts neither.
"""

import re

from headcheck.grader.sandbox.sentences import Finding
from headcheck.grader.sandbox.worker.crashes import (
    axes,
    calls,
    names,
    products,
    shapes,
    tensors,
    things,
)
from headcheck.grader.sandbox.worker.crashes.scene import LineLocator, Patterns, Scene, observe

MAX_TEXT = 2000
CATALOGUE: tuple[Patterns, ...] = tuple(
    each.PATTERNS for each in (names, things, calls, tensors, products, shapes, axes)
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
    for patterns in CATALOGUE:
        for pattern, explain in patterns.get(scene.kind, {}).items():
            if (match := re.match(pattern, scene.text)) and (found := explain(scene, match)):
                return found
    return None
