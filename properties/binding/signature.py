"""What a class takes, as far as its source tells."""

from dataclasses import dataclass

Literal = int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a constructor or of `forward`, without `self`."""

    name: str
    has_default: bool = False
    default: Literal = None
    """where it is written as such"""


@dataclass(frozen=True, slots=True)
class Signature:
    """The name of a class, and the parameters of its constructor and of `forward`."""

    name: str
    constructor: tuple[Parameter, ...]
    call: tuple[Parameter, ...]
    variables: tuple[Parameter, ...] = ()
    """variables of the submission that it reads, and their values as defaults"""
