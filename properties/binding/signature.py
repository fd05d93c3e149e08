"""What a class takes, as far as its source tells."""

from dataclasses import dataclass

Literal = int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class SignatureParameter:
    """One parameter of a constructor or of `forward`, without `self`."""

    name: str
    has_default: bool = False
    default: Literal = None
    """where it is written as such"""
    quantity: str | None = None
    """what it is, if somebody said so"""


@dataclass(frozen=True, slots=True)
class Signature:
    """The name of a class, and the parameters of its constructor and of `forward`."""

    name: str
    constructor: tuple[SignatureParameter, ...]
    call: tuple[SignatureParameter, ...]
    variables: tuple[SignatureParameter, ...] = ()
    """variables of the submission that it reads, and their values as defaults"""
    causal: bool | None = None
    """whether it is meant to be causal, if somebody said so"""
