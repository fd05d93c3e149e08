"""Crashes due to wrong arguments, calls that never end, and what the grader lacks."""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from torch import nn

from headcheck.grader.sandbox.sentences import Finding, conclude, count
from headcheck.grader.sandbox.worker.crashes.names import suggest
from headcheck.grader.sandbox.worker.crashes.scene import Explainer, Patterns, Scene
from headcheck.grader.sandbox.worker.crashes.things import NUMBER_TYPES, explain_none
from headcheck.grader.sandbox.worker.crashes.values import UNKNOWN

MIN_DEPTH = 100
"""a function whose calls are nested this deep is taken to call itself without end"""


def explain_missing(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a call of a function of torch lacks an argument."""
    if not isinstance(scene.node, ast.Call):
        return None
    names = re.findall(r"['\"](\w+)['\"]", match["names"])
    if names == ["dim"]:
        return conclude("no_dim", scene.write(scene.node))
    listed = ", ".join(f"`{name}`" for name in names[:6])
    return conclude("missing_argument", f"{scene.write(scene.node.func)} needs {listed}")


def explain_surplus(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a layer is called with too many arguments; Python counts `self`, too."""
    if not isinstance(scene.node, ast.Call) or not isinstance(scene.callee, nn.Module):
        return None
    taken, given = int(match["taken"]) - 1, int(match["given"]) - 1
    text = f"{scene.write(scene.node.func)} takes {count(taken, 'arguments')}, and got {given}"
    return conclude("too_many_arguments", text)


def explain_keyword(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a call names an argument that does not exist."""
    name = match["name"]
    if scene.node is None:
        return conclude("unknown_keyword", f"`{match['callee']}` has no `{name}`")
    if not isinstance(scene.node, ast.Call):
        return None
    if name not in [keyword.arg for keyword in scene.node.keywords]:
        return None
    offered = re.findall(r"\(?\w+ (\w+)[,)]", scene.text) or _list_parameters(scene.callee)
    near = suggest(name, offered)
    return conclude("unknown_keyword", f"{scene.write(scene.node.func)} has no `{name}`", near)


def _list_parameters(function: Any) -> list[str]:
    of_torch = getattr(function, "__module__", "") or ""
    if function is UNKNOWN or not str(of_torch).startswith("torch"):
        return []
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def explain_float(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a size or an index is a float."""
    floats = [node for node in _iter_sizes(scene.node) if _is_float(scene.find(node))]
    if not floats:
        return None
    said = f"{scene.write(floats[0])} is {scene.find(floats[0])}"
    divided = any(isinstance(n, ast.Div) for n in ast.walk(floats[0]))
    why = "; `/` gives a float even where it divides evenly" * divided
    return conclude("float_size", said, why)


def _is_float(value: Any) -> bool:
    """Whether a value is a float, or a shape with one in it."""
    return type(value) is float or (type(value) in (tuple, list) and float in map(type, value))


def _iter_sizes(node: ast.AST | None) -> Iterator[ast.expr]:
    """Yield the expressions in a call or an index that are, or may be, sizes."""
    match node:
        case ast.Call():
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
        case ast.Subscript(slice=index):
            given = [index]
        case _:
            given = []
    while given:
        each = given.pop(0)
        match each:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                given[:0] = parts
            case ast.Slice(lower=lower, upper=upper, step=step):
                given[:0] = [part for part in (lower, upper, step) if part is not None]
            case ast.Starred(value=value):
                yield value
            case _:
                yield each


def explain_size(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a size is a float, or None."""
    if match["type"] == "NoneType":
        nones = [n for n in _iter_sizes(scene.node) if scene.find(n) is None]
        return explain_none(scene, nones[0]) if len(nones) == 1 else None
    if found := explain_float(scene, match):
        return found
    # As much as is certain if it is not known which size is the float.
    is_call = match["type"] == "float" and isinstance(scene.node, ast.Call)
    return conclude("float_size", f"in {scene.write(scene.node)}") if is_call else None


def explain_recursion(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a function calls itself until the stack is full."""
    called = Counter(frame.f_code for frame in scene.frames).most_common(1)
    if not called or called[0][1] < MIN_DEPTH:
        return None
    return conclude("endless_recursion", f"`{called[0][0].co_name}`")


def explain_zero(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that the second operand of a division is zero."""
    match scene.node:
        case ast.BinOp(right=right) | ast.AugAssign(value=right):
            value = scene.find(right)
            if type(value).__name__ not in NUMBER_TYPES or value != 0:
                return conclude("division_by_zero", scene.write(scene.node))
            shown = "" if isinstance(right, ast.Constant) else f" is {value}"
            return conclude("division_by_zero", f"{scene.write(right)}{shown}")
    return None


def explain_replaced(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that an assignment would replace a registered attribute by another kind of object."""
    kind = {"child module": "layer"}.get(match["what"], match["what"])
    given = match["type"].rpartition(".")[2].replace("FloatTensor", "plain tensor")
    given = given.replace("DoubleTensor", "plain tensor")
    return conclude("parameter_replaced", f"`{match['name']}` is a {kind}, and is set to a {given}")


def explain_taken(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that the name under which something is to be registered is already taken."""
    if not isinstance(scene.node, ast.Call) or scene.direct:
        return None
    return conclude("name_taken", f"`{match['name']}`")


def explain_no_layer(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that a list of layers is given an object that is not a layer."""
    if not isinstance(scene.node, ast.Call) or scene.direct:
        return None
    kind = match["type"].rpartition(".")[2]
    is_tensor = kind.endswith("Tensor") or kind == "Parameter"
    got = "a tensor; `nn.ParameterList` holds tensors" if is_tensor else f"a {kind}"
    return conclude("list_of_no_layers", f"{scene.write(scene.node.func)} got {got}")


def explain_rate(scene: Scene, match: re.Match[str]) -> Finding | None:
    """Explain that dropout is given a value that is not a probability."""
    if not isinstance(scene.node, ast.Call) or scene.direct:
        return None
    rates = [n for n in _iter_sizes(scene.node) if str(scene.find(n)) == match["rate"]]
    named = len(rates) == 1 and not isinstance(rates[0], ast.Constant)
    return conclude("dropout_rate", f"{scene.write(rates[0])} is " * named + match["rate"])


def _make_quoting(name: str) -> Explainer:
    """Return a function that explains that the grader lacks something, and quotes what needs it."""
    return lambda scene, _: None if scene.node is None else conclude(name, scene.write(scene.node))


explain_device = _make_quoting("no_such_device")

PATTERNS: Patterns = {
    TypeError: {
        r"(?P<callee>\w+)\(\) received an invalid combination .*? keywords were incorrect: "
        r"(?P<name>\w+)": explain_keyword,
        r"\w+\(\) received an invalid combination of arguments - got \(.*float": explain_float,
        r"(?:ones|zeros|rand|randn|empty)\(\) takes 1 positional argument but "
        r"\d were": explain_float,
        r"[\w.]+\(\) missing \d+ required positional arguments?: (?P<names>.*)": explain_missing,
        r"\w+\.forward\(\) takes (?P<taken>\d+) positional arguments? but (?P<given>\d+) "
        r"were given": explain_surplus,
        r"(?P<callee>[\w.]+)\(\) got an unexpected keyword argument "
        r"'(?P<name>\w+)'": explain_keyword,
        r".*must be tuple of ints, ?but got (?P<type>\w+)": explain_size,
        r".*must be tuple of ints, but found element of type (?P<type>\w+)": explain_size,
        r".*argument '\w+' \(position \d+\) must be int, not (?P<type>\w+)": explain_size,
        r"'(?P<type>float)' object cannot be interpreted as an integer": explain_size,
        r"slice indices must be integers": explain_float,
        r"cannot assign '(?P<type>[\w.]+)' as (?P<what>parameter|child module) "
        r"'(?P<name>\w+)'": explain_replaced,
        r"(?P<type>[\w.<>]+) is not a Module subclass": explain_no_layer,
    },
    RuntimeError: {
        r".*Explicit attn_mask should not be set when is_causal": lambda scene, match: conclude(
            "mask_and_causal"
        ),
        r"No (CUDA|HIP) GPUs are available|Found no NVIDIA driver|CUDA error: (invalid device|no "
        r"CUDA)|Attempting to deserialize object on |"
        r"PyTorch is not linked with support for ": explain_device,
    },
    RecursionError: {r"maximum recursion depth exceeded": explain_recursion},
    ZeroDivisionError: {r"": explain_zero},
    KeyError: {r"\"attribute '(?P<name>\w+)' already exists\"": explain_taken},
    ValueError: {
        r"dropout probability has to be between 0 and 1, but got (?P<rate>\S+)": explain_rate,
    },
    EOFError: {r"EOF when reading a line": _make_quoting("nobody_answers")},
    AssertionError: {r"Torch not compiled with \w+ enabled": explain_device},
    FileNotFoundError: {r"": _make_quoting("no_such_file")},
}
