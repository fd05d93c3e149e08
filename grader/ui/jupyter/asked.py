"""From an object in a notebook to what is judged: its name and the exercise that it answers."""

import functools
import inspect
import types
from collections.abc import Mapping
from typing import Any

from torch import nn

from exercises import ALL, Exercise
from grader.grading import infer
from grader.grading.infer import DefinitionSignature, Target, TargetNotFound
from grader.ui.jupyter.live import SourceText
from properties.contract import Entry

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
OPEN_ENDED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class CannotCheck(Exception):
    """What was asked for cannot be checked; the message says why and what to write instead.

    A notebook shows the message and no traceback: there is nothing to be found in one.
    """

    def _render_traceback_(self) -> list[str]:
        return [f"headcheck: {self}"]


def find_name(definition: object, namespace: Mapping[str, Any]) -> str:
    """What an object is called where it is defined. Raises CannotCheck for one of no use."""
    if isinstance(definition, nn.Module):
        kind = type(definition).__name__
        raise CannotCheck(f"check takes the class, not an instance of it: write check({kind})")
    if isinstance(definition, str):
        name = definition if definition.isidentifier() else "MultiHeadAttention"
        raise CannotCheck(
            f"check takes a class or a function, not a string: write check({name}), without quotes"
        )
    if isinstance(definition, types.ModuleType) or not callable(definition):
        kind = type(definition).__name__
        raise CannotCheck(
            f"check takes a class or a function, not something of type {kind}: "
            "write the name that you defined, as in check(MultiHeadAttention)"
        )
    own = getattr(definition, "__name__", None)
    if isinstance(own, str) and own.isidentifier() and namespace.get(own, definition) is definition:
        return own
    found = [name for name, value in namespace.items() if value is definition and name[:1] != "_"]
    if not found:
        raise CannotCheck("what is checked needs a name: assign it to one, and check that")
    return found[0]


def find_target(
    definition: object, exercise: str | None, namespace: Mapping[str, Any], text: SourceText
) -> Target:
    """What to judge an object as: the exercise that is named, else the one that it answers.

    Raises CannotCheck where there is none.
    """
    defined = describe_definition(find_name(definition, namespace), definition, text)
    try:
        wanted = None if exercise is None else infer.find_exercise(_check_slug(exercise))
        if wanted is not None and not can_answer(defined, wanted):
            raise CannotCheck(_explain_wrong_kind(defined, wanted))
        [target] = infer.choose_targets([defined], wanted, defined.name)
    except TargetNotFound as problem:
        raise CannotCheck(
            _explain_no_exercise(defined) if exercise is None else str(problem)
        ) from None
    return target


def describe_definition(name: str, definition: object, text: SourceText) -> DefinitionSignature:
    """An object as reading its source would find it."""
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
    )


def _get_parameters(definition: object) -> list[inspect.Parameter]:
    """The parameters of a function or of a class's own constructor, without `self`."""
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
    """Where it is defined, as far as that is known."""
    function = definition.__init__ if isinstance(definition, type) else definition  # type: ignore[misc]
    code = getattr(function, "__code__", None)
    known = code and text.find_position(code.co_filename, code.co_firstlineno)
    return known or (None, 1)


def can_answer(defined: DefinitionSignature, exercise: Exercise) -> bool:
    """Whether it is of the kind asked for: a class or a function; either can build a module."""
    entry = exercise.contract.entry
    return entry is Entry.BUILDER or defined.is_class is (entry is Entry.CLASS)


def _check_slug(exercise: object) -> str:
    if isinstance(exercise, str):
        return exercise
    raise CannotCheck(
        f"exercise is the name of an exercise, not a {type(exercise).__name__}: "
        'write exercise="multi_head_attention"; `headcheck list` names all'
    )


def _explain_wrong_kind(defined: DefinitionSignature, wanted: Exercise) -> str:
    asked = "class" if wanted.contract.entry is Entry.CLASS else "function"
    given = "class" if defined.is_class else "function"
    return (
        f"`{defined.name}` is a {given}, and {wanted.slug} asks for a {asked}, "
        f"{_describe_exercise(wanted)}"
    )


def _explain_no_exercise(defined: DefinitionSignature) -> str:
    """Why an object answers nothing: its arguments if there is an exercise of its name."""
    takes = ", ".join((*defined.required, *defined.optional))
    alike = [_describe_exercise(e) for e in ALL if e.contract.name == defined.name]
    if alike:
        return f"`{defined.name}` takes ({takes}); asked for is {' or '.join(alike)}"
    return (
        f"no exercise asks for `{defined.name}({takes})`: say which one is meant, as in "
        f'check({defined.name}, exercise="multi_head_attention"); `headcheck list` names all'
    )


def _describe_exercise(exercise: Exercise) -> str:
    return infer.describe_signature(exercise.contract)
