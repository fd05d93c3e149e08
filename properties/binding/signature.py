"""The parameters of a class, read from its source or from the class itself."""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from types import FunctionType

from headcheck.properties.contract import Entry

Literal = int | float | bool | str | None
NAMED_KINDS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


@dataclass(frozen=True, slots=True)
class SignatureParameter:
    """One parameter of a constructor or of `forward`, without `self`."""

    name: str
    has_default: bool = False
    default: Literal = None
    """the default, if the source has it as a literal"""
    quantity: str | None = None
    """its quantity, if the user named it"""


@dataclass(frozen=True, slots=True)
class Signature:
    """The name of a class, and the parameters of its constructor and of `forward`.

    A function has no constructor, and is called itself.
    """

    name: str
    constructor: tuple[SignatureParameter, ...]
    call: tuple[SignatureParameter, ...]
    variables: tuple[SignatureParameter, ...] = ()
    """variables of the submission that it reads, and their values as defaults"""
    entry: Entry = Entry.CLASS
    """whether it is a class, or a function"""
    causal: bool | None = None
    """whether it is meant to be causal, if the user said so"""


def read_signature(definition: type | FunctionType) -> Signature:
    """Return the signature of a class of this process and its `forward`, or of a function."""
    if isinstance(definition, FunctionType):
        call = _read_parameters(inspect.signature(definition).parameters.values())
        return Signature(definition.__name__, (), call, entry=Entry.FUNCTION)
    forward = list(inspect.signature(definition.forward).parameters.values())[1:]  # type: ignore[attr-defined]
    constructor = inspect.signature(definition).parameters.values()
    return Signature(definition.__name__, _read_parameters(constructor), _read_parameters(forward))


def _read_parameters(parameters: Iterable[inspect.Parameter]) -> tuple[SignatureParameter, ...]:
    return tuple(_read_parameter(each) for each in parameters if each.kind in NAMED_KINDS)


def _read_parameter(parameter: inspect.Parameter) -> SignatureParameter:
    default = parameter.default
    literal: Literal = default if isinstance(default, int | float | bool | str) else None
    return SignatureParameter(parameter.name, default is not inspect.Parameter.empty, literal)
