"""Describe what a submission raises, in one line for its author."""

from typing import Any

from grader.reading.call_errors import CallProblem, explain_call_error
from grader.reading.cells import SubmissionSource, Unreadable
from grader.reading.slicing import Position
from grader.reading.symbol_table import build_symbol_table
from grader.sandbox.worker import attribute_paths
from grader.sandbox.worker.call_environment import BuiltInAttentionCalled
from grader.sandbox.worker.calling import Refused

MESSAGE_LIMIT = 400


def describe_error(error: BaseException, position: Position | None = None) -> dict[str, Any]:
    """Describe an exception of the submission in one line, with its position."""
    cell, line = position or (None, None)
    text = _get_text(error)[:MESSAGE_LIMIT]
    name = type(error).__name__
    is_ours = isinstance(
        error, Refused | Unreadable | BuiltInAttentionCalled | attribute_paths.NoSuchTensor
    )
    message = text if is_ours else f"{name}: {text}" if text else name
    return {"type": name, "message": message, "cell": cell, "line": line}


def explain_error(error: BaseException, source: SubmissionSource) -> CallProblem | None:
    """Explain why a definition of the submission could not be called; None if that is not it."""
    if type(error) not in (NotImplementedError, TypeError):
        return None
    return explain_call_error(type(error).__name__, _get_text(error), build_symbol_table(source))


def _get_text(error: BaseException) -> str:
    # A lone surrogate could not be sent.
    return " ".join(str(error).encode(errors="replace").decode().split())
