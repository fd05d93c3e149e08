"""Describe an exception of a submission in one line, in the terms of its author.

Python's message about a wrong call counts `self` among the arguments and does not name the
arguments. The explanation is derived only from text: the error message and the signature.
"""

import ast
import re
from dataclasses import dataclass
from typing import Any

from headcheck.grader.reading.cells import SubmissionSource, Unreadable
from headcheck.grader.reading.near_names import find_near_name
from headcheck.grader.reading.parameters import is_static
from headcheck.grader.reading.slicing import Position
from headcheck.grader.reading.symbol_table import (
    DefinitionSite,
    FunctionNode,
    SymbolTable,
    build_symbol_table,
    label_function,
)
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
MAX_NAMED = 6
"""an explanation names at most this many arguments"""
_NO_FORWARD = re.compile(r'Module \[(?P<callee>\w+)\] is missing the required "forward" function')
_NO_CONSTRUCTOR = re.compile(
    r"(?P<callee>\w+)(?:\.__init__)?\(\) "
    r"(?:takes no arguments|takes 1 positional argument but|got an unexpected keyword argument)"
)
_TOO_MANY = re.compile(
    r"(?P<callee>[\w.<>]+)\(\) takes (?:from (?P<least>\d+) to )?(?P<most>\d+) positional "
    r"arguments? but (?P<given>\d+) (?:positional arguments? \(and .*\) )?(?:was|were) given"
)
_MISSING = re.compile(
    r"(?P<callee>[\w.<>]+)\(\) missing \d+ required (?:positional|keyword-only) arguments?: (.*)"
)


@dataclass(frozen=True, slots=True)
class CallProblem:
    """What is wrong with a call, and the position of the definition to look at, if there is one."""

    message: str
    position: Position | None = None


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


def explain_call_error(kind: str, text: str, symbols: SymbolTable) -> CallProblem | None:
    """Explain the error with which a call failed; None if the error is not about the call.

    `kind` is the name of the error's type, and `text` is its message.
    """
    if kind == "NotImplementedError" and (match := _NO_FORWARD.match(text)):
        return _explain_absent(symbols, match["callee"], "forward")
    if kind != "TypeError":
        return None
    if match := _NO_CONSTRUCTOR.match(text):
        problem = _explain_absent(symbols, match["callee"], "__init__")
        if problem is not None:
            return problem
    if match := _TOO_MANY.fullmatch(text):
        return _explain_too_many(symbols, match)
    if match := _MISSING.fullmatch(text):
        return _explain_missing(symbols, match["callee"], re.findall(r"'(\w+)'", text))
    return None


def _explain_absent(symbols: SymbolTable, name: str, wanted: str) -> CallProblem | None:
    """Say that a class lacks a method, and name a likely misspelling; None if it has the method."""
    site = symbols.find_definition(name)
    if site is None or not isinstance(site.node, ast.ClassDef):
        return None
    if symbols.find_method(site, wanted) is not None:
        return None
    near = find_near_name(symbols, site, wanted)
    absent = f"there is no `{wanted}` in `{name}`"
    if near is None:
        return CallProblem(absent, (site.cell, site.node.lineno))
    return CallProblem(f"{absent}; did you mean `{near.written}`?", (near.cell, near.line))


def _explain_too_many(symbols: SymbolTable, match: re.Match[str]) -> CallProblem | None:
    found = _find_function(symbols, match["callee"])
    if found is None:
        return None
    site, function = found
    positional = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    if len(positional) != int(match["most"]):
        return None  # it is about another function of that name
    label = label_function(site, function)
    is_method = site.node is not function and not is_static(function)
    if is_method and positional[:1] not in (["self"], ["cls"]):
        whole = ", ".join(["self", *positional])
        text = f"TypeError: {label} has no `self`; write `def {function.name}({whole})`"
        return CallProblem(text, (site.cell, function.lineno))
    own, given = positional[is_method:], int(match["given"]) - is_method
    least = len(own) - len(function.args.defaults)
    return CallProblem(
        f"TypeError: {label} takes {_describe_arguments(own, least)}, but {given} "
        f"{'was' if given == 1 else 'were'} given"
    )


def _explain_missing(symbols: SymbolTable, callee: str, names: list[str]) -> CallProblem | None:
    found = _find_function(symbols, callee)
    if found is None or not names:
        return None
    verb = "was" if len(names) == 1 else "were"
    what = f"{label_function(*found)} needs {_list_names(names)}"
    return CallProblem(f"TypeError: {what}, which {verb} not given")


def _find_function(symbols: SymbolTable, callee: str) -> tuple[DefinitionSite, FunctionNode] | None:
    """Return the submission's function that an error message calls `f` or `Class.f`."""
    owner, _, name = callee.rpartition(".")
    site = symbols.find_definition(owner or name)
    if site is None:
        return None
    if owner:
        return symbols.find_method(site, name)
    return None if isinstance(site.node, ast.ClassDef) else (site, site.node)


def _describe_arguments(names: list[str], least: int) -> str:
    if not names:
        return "no argument"
    count = str(len(names)) if least >= len(names) else f"{max(least, 0)} to {len(names)}"
    return f"{count} argument{'s' * (count != '1')} ({_list_names(names)})"


def _list_names(names: list[str]) -> str:
    shown = [f"`{name}`" for name in names[:MAX_NAMED]]
    if len(names) > MAX_NAMED:
        return f"{', '.join(shown)} and {len(names) - MAX_NAMED} more"
    *most, last = shown
    return f"{', '.join(most)} and {last}" if most else last
