"""Find the name of an object in a notebook, and the exercise that it answers."""

import functools
import inspect
import types
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from torch import nn

from headcheck.exercises import ALL, Exercise
from headcheck.exercises.exercise import BadContract
from headcheck.grader.grading import definitions, infer
from headcheck.grader.grading.definitions import DefinitionSignature
from headcheck.grader.grading.infer import Inferred, TargetNotFound
from headcheck.grader.reading.cells import Unreadable, read_source
from headcheck.grader.reading.symbol_table import build_symbol_table
from headcheck.grader.reading.variables import list_variables
from headcheck.grader.report.records import ErrorRecord, SubmissionRecord
from headcheck.grader.ui.jupyter.live import SourceText
from headcheck.properties.contracts.contract import Entry
from headcheck.properties.signatures.signature import Signature, SignatureParameter, read_signature
from headcheck.properties.signatures.vocabulary import takes_three_tokens

OPEN_ENDED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class CannotCheck(Exception):
    """An object that cannot be checked; the message says why and what to write instead.

    A notebook displays the message without a traceback, which would not help.
    """

    def _render_traceback_(self) -> list[str]:
        return [f"headcheck: {self}"]


def find_name(definition: object, namespace: Mapping[str, Any]) -> str:
    """Return the name of an object. Raises CannotCheck if it cannot be an answer."""
    if isinstance(definition, nn.Module):
        kind = type(definition).__name__
        raise CannotCheck(f"check takes the class, not an instance of it: write check({kind})")
    if isinstance(definition, str):
        name = definition if definition.isidentifier() else "MultiHeadAttention"
        text = f"write check({name}), without quotes"
        raise CannotCheck(f"check takes a class or a function, not a string: {text}")
    if isinstance(definition, types.ModuleType) or not callable(definition):
        kind = type(definition).__name__
        raise CannotCheck(
            f"check takes a class or a function, not something of type {kind}: "
            "write the name that you defined, as in check(MultiHeadAttention)"
        )
    own = getattr(definition, "__name__", None)
    if isinstance(own, str) and own.isidentifier() and namespace.get(own, definition) is definition:
        return own
    names = [name for name, value in namespace.items() if value is definition and name[:1] != "_"]
    if not names:
        raise CannotCheck("what is checked needs a name: assign it to one, and check that")
    return names[0]


def find_exercise(exercise: object) -> Exercise:
    """Return the exercise given as an object, by its slug or by its folder. Raises CannotCheck."""
    if isinstance(exercise, Exercise):
        return exercise
    if not isinstance(exercise, str):
        raise CannotCheck(
            f"exercise is the name of an exercise, or its folder, not a {type(exercise).__name__}: "
            'write exercise="multi_head_attention"; `headcheck list` names all'
        )
    try:
        return infer.find_exercise(exercise)
    except (BadContract, TargetNotFound) as error:
        raise CannotCheck(str(error)) from None


def infer_object(defined: DefinitionSignature, exercise: Exercise | None) -> Inferred:
    """Infer which exercise an object answers. Raises CannotCheck if it is of the wrong kind."""
    if exercise is not None and not can_answer(defined, exercise):
        raise CannotCheck(_explain_wrong_kind(defined, exercise))
    inferred = infer.infer_all([defined], exercise, defined.name)
    return replace(inferred, problem=ErrorRecord("not_found", _explain_no_exercise(defined)))


def explain_unknown(defined: DefinitionSignature, record: SubmissionRecord) -> str | None:
    """Say that an object is neither an answer nor attention, and what to do; None if it is one."""
    if record.error is None or record.error.kind != "not_found":
        return None
    named = f'as in check({defined.name}, exercise="multi_head_attention")'
    advice = f"say which exercise is meant, {named}; `headcheck list` names all"
    if defined.signature is not None:
        advice += '; or say what its arguments are, as in bind="heads=n_head"'
    return f"{record.error.message}: {advice}"


def describe_definition(name: str, definition: object, text: SourceText) -> DefinitionSignature:
    """Describe an object in the way that reading its source would."""
    parameters = _get_parameters(definition)
    plain = [p for p in parameters if p.kind not in OPEN_ENDED]
    cell, line = _locate(definition, text)
    bases = definition.__bases__ if isinstance(definition, type) else ()
    return DefinitionSignature(
        name=name,
        is_class=isinstance(definition, type),
        cell=cell,
        line=line,
        required=tuple(p.name for p in plain if p.default is p.empty),
        optional=tuple(p.name for p in plain if p.default is not p.empty),
        open_ended=len(plain) < len(parameters),
        bases=tuple(base.__name__ for base in bases if base is not object),
        signature=_read_signature(name, definition, text),
    )


def _read_signature(name: str, definition: object, text: SourceText) -> Signature | None:
    """Return the arguments of a module and its `forward`, or of possible attention, or None."""
    if isinstance(definition, types.FunctionType):
        found = replace(read_signature(definition), name=name)
        return found if takes_three_tokens(found.call) else None
    if not (isinstance(definition, type) and issubclass(definition, nn.Module)):
        return None
    if definition.forward is nn.Module.forward:
        return None
    return replace(read_signature(definition), name=name, variables=_read_variables(name, text))


def _read_variables(name: str, text: SourceText) -> tuple[SignatureParameter, ...]:
    """Return the variables that a definition reads, as far as its text shows."""
    try:
        found = list_variables(build_symbol_table(read_source(text.data, text.kind)))
    except Unreadable:
        return ()
    return definitions.parse_variables(list(map(asdict, found)), name)


def _get_parameters(definition: object) -> list[inspect.Parameter]:
    """Return the parameters of a function, or of a class's own constructor without `self`."""
    maker: Any = definition
    if isinstance(definition, type):
        maker = functools.partial(definition.__init__, None)  # type: ignore[misc]  # its own class's
        if definition.__init__ in (nn.Module.__init__, object.__init__):  # type: ignore[misc]
            return []
    try:
        return list(inspect.signature(maker).parameters.values())
    except (TypeError, ValueError):
        return []


def _locate(definition: object, text: SourceText) -> tuple[int | None, int]:
    """Return the cell and the line of a definition, as far as known."""
    function = definition.__init__ if isinstance(definition, type) else definition  # type: ignore[misc]
    code = getattr(function, "__code__", None)
    position = code and text.find_position(code.co_filename, code.co_firstlineno)
    return position or (None, 1)


def can_answer(defined: DefinitionSignature, exercise: Exercise) -> bool:
    """Return whether a definition is of the required kind; either kind can build a module."""
    entry = exercise.contract.entry
    return entry is Entry.BUILDER or defined.is_class is (entry is Entry.CLASS)


def _explain_wrong_kind(defined: DefinitionSignature, exercise: Exercise) -> str:
    required = "class" if exercise.contract.entry is Entry.CLASS else "function"
    actual = "class" if defined.is_class else "function"
    asked = f"{exercise.slug} asks for a {required}, {_describe_exercise(exercise)}"
    return f"`{defined.name}` is a {actual}, and {asked}"


def _explain_no_exercise(defined: DefinitionSignature) -> str:
    """Return why an object answers no exercise: its arguments, if an exercise has its name."""
    takes = ", ".join((*defined.required, *defined.optional))
    same_name = [_describe_exercise(e) for e in ALL if e.contract.name == defined.name]
    if same_name:
        return f"`{defined.name}` takes ({takes}); it should take {' or '.join(same_name)}"
    return f"no exercise asks for `{defined.name}({takes})`"


def _describe_exercise(exercise: Exercise) -> str:
    return infer.describe_signature(exercise.contract)
