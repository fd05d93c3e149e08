"""Describe an exception of a submission in one line for its author."""

from typing import Any

from headcheck.grader.reading.call_errors import CallProblem, explain_call_error
from headcheck.grader.reading.cells import SubmissionSource, Unreadable
from headcheck.grader.reading.slicing import Position
from headcheck.grader.reading.symbol_table import build_symbol_table
from headcheck.grader.sandbox.operations import MESSAGE_LIMIT
from headcheck.grader.sandbox.worker import attribute_paths
from headcheck.grader.sandbox.worker.call_environment import BuiltInAttentionCalled
from headcheck.grader.sandbox.worker.calling import Refused
from headcheck.grader.sandbox.worker.importing import TOP, SiblingFinder

LOCAL_NAMES = frozenset(
    {"attention", "common", "config", "data", "dataset", "gpt", "helper", "helpers", "layers"}
    | {"main", "mask", "model", "models", "modules", "previous_chapters", "src", "tools"}
    | {"transformer", "util", "utils"}
)
"""names that people often give to their own modules, and that no well-known library has"""


def describe_error(error: BaseException, position: Position | None = None) -> dict[str, Any]:
    """Describe an exception of the submission in one line, with its position."""
    cell, line = position or (None, None)
    text = _get_text(error).replace(f"'{TOP}.", "'")[:MESSAGE_LIMIT]
    name = type(error).__name__
    is_ours = isinstance(
        error, Refused | Unreadable | BuiltInAttentionCalled | attribute_paths.NoSuchTensor
    )
    message = text if is_ours else f"{name}: {text}" if text else name
    return {"type": name, "message": message, "cell": cell, "line": line}


def explain_error(
    error: BaseException, source: SubmissionSource, finder: SiblingFinder
) -> CallProblem | None:
    """Explain why a definition could not be called, or a module could not be imported.

    Returns None if neither is the cause of the error.
    """
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        name = error.name.removeprefix(TOP) if error.name.startswith(f"{TOP}.") else error.name
        return CallProblem(f"{type(error).__name__}: {_explain_missing_module(name, finder)}")
    if isinstance(error, ImportError) and "beyond top-level package" in str(error):
        text = "imports from above the folder that was handed in; hand in the whole package"
        return CallProblem(f"{type(error).__name__}: {text}")
    if type(error) not in (NotImplementedError, TypeError):
        return None
    return explain_call_error(type(error).__name__, _get_text(error), build_symbol_table(source))


def _explain_missing_module(name: str, finder: SiblingFinder) -> str:
    """Explain which module is missing and what to do; a name that begins with a dot is relative."""
    if problem := finder.get_problem(name):
        return f"imports `{name}`, but {problem}"
    first = name.partition(".")[0]
    if first and first not in LOCAL_NAMES and not finder.holds(first):
        return (
            f"imports `{name}`, which is not installed here and not beside the file; "
            "leave the import out if it is not needed"
        )
    if finder.searched:
        return f"imports `{name}`, which is not beside the file; hand it in together with it"
    return (
        f"imports `{name}`; other files are not taken along here, so put what is needed of it "
        "into this one"
    )


def _get_text(error: BaseException) -> str:
    # A lone surrogate could not be sent.
    return " ".join(str(error).encode(errors="replace").decode().split())
