"""Crashes because the grader lacks something that code needs: a user at a prompt, a GPU, a file."""

import re
from collections.abc import Callable

from headcheck.grader.sandbox.sentences import Finding, conclude
from headcheck.grader.sandbox.worker.crashes.scene import Scene


def _make_explainer(name: str) -> Callable[[Scene, re.Match[str]], Finding | None]:
    def explain(scene: Scene, _: re.Match[str]) -> Finding | None:
        return None if scene.node is None else conclude(name, scene.write(scene.node))

    return explain


explain_input = _make_explainer("nobody_answers")
explain_device = _make_explainer("no_such_device")
explain_file = _make_explainer("no_such_file")

PATTERNS = (
    (EOFError, r"EOF when reading a line", explain_input),
    (AssertionError, r"Torch not compiled with \w+ enabled", explain_device),
    (
        RuntimeError,
        r"No (CUDA|HIP) GPUs are available|Found no NVIDIA driver|CUDA error: (invalid device|no "
        r"CUDA)|Attempting to deserialize object on |PyTorch is not linked with support for ",
        explain_device,
    ),
    (FileNotFoundError, r"", explain_file),
)
