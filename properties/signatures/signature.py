"""The parameters of a class, read from its source or from the class itself."""

import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from types import FunctionType

from headcheck.properties.contracts.contract import Entry

SENTENCE = re.compile(r"[^.;\n]+")
"""a sentence of a docstring, or a part of one"""
Literal = int | float | bool | str | None
NAMED_KINDS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


@dataclass(frozen=True, slots=True)
class Maker:
    """A class of the submission that makes what a parameter takes, or a function that is this."""

    name: str
    attribute: str = ""
    """the attribute in which a constructor stores the object"""
    constructor: tuple["SignatureParameter", ...] = ()


@dataclass(frozen=True, slots=True)
class SignatureParameter:
    """One parameter of a constructor or of `forward`, without `self`."""

    name: str
    has_default: bool = False
    default: Literal = None
    """the default, if it is a literal in the source"""
    quantity: str | None = None
    """the quantity of the parameter, if the user stated it"""
    by_name: bool = False
    """whether it is passed by name only, as options are"""
    is_switch: bool = False
    """whether its annotation says that it is on or off"""
    makers: tuple[Maker, ...] = ()
    """what may make the object that it takes, the likeliest first"""


@dataclass(frozen=True, slots=True)
class Signature:
    """The name of a class, and the parameters of its constructor and of `forward`.

    A function has no constructor; the calls are those of the function itself.
    """

    name: str
    constructor: tuple[SignatureParameter, ...]
    call: tuple[SignatureParameter, ...]
    variables: tuple[SignatureParameter, ...] = ()
    """variables of the submission that the class reads, with their values as defaults"""
    entry: Entry = Entry.CLASS
    """whether the definition is a class or a function"""
    causal: bool | None = None
    """whether the attention should be causal, if the user said so"""
    doc: str = ""
    """what its docstrings say"""
    reset: str = ""
    """the method that forgets earlier calls; "" if there is none"""
    forgets: str = ""
    """the attribute that its users set to None where a sequence begins; "" if there is none"""
    set_later: tuple[str, ...] = ()
    """the attributes that its caller may have to set up by calling another method"""
    for_inference: bool = False
    """whether `forward` says that it computes no gradients, or a cache cuts them off"""
    batch_first: str = ""
    """what it says of the axes of its tokens, if it says that the batch comes first"""
    own_token: str = ""
    """what it says of the token itself, if it says that a window counts it"""
    options: tuple[SignatureParameter, ...] = ()
    """the fields of its config that are off or None by default"""
    switched_on: tuple[str, ...] = ()
    """those that are True"""
    bypassed: tuple[str, ...] = ()
    """the paths of norms of tokens that calls leave out"""
    silenced: tuple[str, ...] = ()
    """the paths of the weights of feed-forwards, which are zeros in every module"""
    adds_tokens: bool = False
    """whether calls take the tokens off the output"""
    given: tuple[SignatureParameter, ...] = ()
    """the required parameters of `forward` that are neither tokens nor a mask, if set apart"""

    @property
    def makers(self) -> list[Maker]:
        """What may make the objects that the constructor takes."""
        return [maker for parameter in self.constructor for maker in parameter.makers]


def read_signature(definition: type | FunctionType) -> Signature:
    """Return the signature of a class of this process and its `forward`, or of a function."""
    if isinstance(definition, FunctionType):
        call = _read_parameters(inspect.signature(definition).parameters.values())
        doc = definition.__doc__ or ""
        return Signature(definition.__name__, (), call, entry=Entry.FUNCTION, doc=doc)
    forward = list(inspect.signature(definition.forward).parameters.values())[1:]  # type: ignore[attr-defined]
    constructor = inspect.signature(definition).parameters.values()
    own = vars(definition).get("__doc__") or ""  # not that of torch's class
    said = f"{own}\n{definition.forward.__doc__ or ''}"  # type: ignore[attr-defined]
    taken = _read_parameters(constructor), _read_parameters(forward)
    return Signature(definition.__name__, *taken, doc=said)


def _read_parameters(parameters: Iterable[inspect.Parameter]) -> tuple[SignatureParameter, ...]:
    return tuple(_read_parameter(each) for each in parameters if each.kind in NAMED_KINDS)


def _read_parameter(parameter: inspect.Parameter) -> SignatureParameter:
    default = parameter.default
    literal: Literal = default if isinstance(default, int | float | bool | str) else None
    return SignatureParameter(
        parameter.name,
        default is not inspect.Parameter.empty,
        literal,
        by_name=parameter.kind is inspect.Parameter.KEYWORD_ONLY,
        is_switch=parameter.annotation in (bool, "bool"),
    )
