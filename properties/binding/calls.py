"""Ways to call a module for self-attention: the role of each input."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from headcheck.properties.binding.signature import SignatureParameter
from headcheck.properties.binding.vocabulary import guess_role
from headcheck.properties.terms.call_form import CallForm, MaskConvention, MaskSource, Polarity

MASK_CONVENTIONS = (
    MaskConvention(),
    MaskConvention(dtype="bool"),
    MaskConvention(polarity=Polarity.BLOCK, dtype="bool"),
    MaskConvention(polarity=Polarity.ADDED),
    MaskConvention(polarity=Polarity.ADDED, fill=-1e9),
    MaskConvention(polarity=Polarity.BLOCK, dtype="float64"),
    MaskConvention(polarity=Polarity.KEEP, dtype="float64"),
    MaskConvention(polarity=Polarity.KEEP, dtype="int64"),
)
"""The conventions of masks to try, the most permissive first"""
LENGTHS = MaskConvention(given_as=MaskSource.LENGTHS)
SOURCES = (
    (r".*len(gth)?s?", (LENGTHS, replace(LENGTHS, keys_only=True), replace(LENGTHS, axes=3))),
    (r".*(doc|seg).*", (MaskConvention(given_as=MaskSource.DOCUMENTS),)),
    (r".*(cu_?seq|bound|offset).*", (MaskConvention(given_as=MaskSource.BOUNDARIES),)),
)
"""what an argument may take in place of a mask, by its name"""
REQUIRED_MASKS = ((4, False), (3, False), (2, False), (2, True))
"""forms of required masks: the number of axes, and whether the mask covers only keys"""
QKV = ("query", "key", "value")
AXES = (None, 4, 3, 2)
"""the numbers of axes of a mask to try; None means any number that broadcasts"""


def iter_call_forms(parameters: Sequence[SignatureParameter]) -> Iterator[CallForm]:
    """Yield the call forms that the signature of `forward` allows, the likely ones first."""
    for inputs in dict.fromkeys(_iter_inputs(parameters)):
        yield CallForm(inputs)
        if "mask" in inputs and not _has_default(parameters, inputs.index("mask")):
            for (axes, keys_only), number in itertools.product(REQUIRED_MASKS, (1, 2, 3)):
                own = MASK_CONVENTIONS[number]
                required = replace(own, axes=axes, keys_only=keys_only, required=True)
                yield CallForm(inputs, mask=required)


def guess_roles(parameters: Sequence[SignatureParameter]) -> list[str]:
    """Return the roles that the names of the inputs suggest; one required input is the tokens."""
    guesses = [guess_role(p.name) for p in parameters]
    required = [role for p, role in zip(parameters, guesses, strict=True) if not p.has_default]
    return ["x", *guesses[1:]] if set(required) == {"mask"} else guesses


def names_roles(parameters: Sequence[SignatureParameter]) -> bool:
    """Whether the names of the inputs say which input is the queries, the keys or the values."""
    return sorted({*guess_roles(parameters)} - {"mask"}) == sorted(QKV)


def find_mask_name(parameters: Sequence[SignatureParameter]) -> str | None:
    """Return the name of the parameter that takes a mask, if any."""
    roles = zip(parameters, guess_roles(parameters), strict=True)
    return next((p.name for p, role in roles if role == "mask"), None)


def list_mask_sources(name: str) -> Sequence[MaskConvention]:
    """Return what an argument of this name may take in place of a mask, the likeliest first."""
    named = (each for pattern, each in SOURCES if re.fullmatch(pattern, name, re.IGNORECASE))
    return next(named, ())


def takes_three_tokens(parameters: Sequence[SignatureParameter]) -> bool:
    """Whether a call requires three sequences: queries, keys and values, by any names."""
    roles = zip(parameters, guess_roles(parameters), strict=True)
    return sum(role != "mask" and not p.has_default for p, role in roles) == 3


def _has_default(parameters: Sequence[SignatureParameter], number: int) -> bool:
    return parameters[number].has_default


def _iter_inputs(parameters: Sequence[SignatureParameter]) -> Iterator[tuple[str, ...]]:
    """Yield roles for the inputs, in order, up to the mask if a positional call can reach one."""
    required = [p for p in parameters if not p.has_default]
    guesses = guess_roles(parameters)
    last = guesses.index("mask") + 1 if "mask" in guesses else 0
    reached = guesses[: max(len(required), last)]
    tokens = [number for number, role in enumerate(reached) if role != "mask"]
    for number, role in zip(tokens, _guess_token_roles([guesses[n] for n in tokens]), strict=True):
        reached[number] = role
    yield tuple(reached)
    if last > len(required):
        yield tuple(reached[: len(required)])


def _guess_token_roles(guesses: Sequence[str]) -> Sequence[str]:
    """Return roles for the inputs that are tokens, all different.

    In self-attention their order does not matter; it is found out later.
    """
    match len(guesses):
        case 2:
            return "query", "context"
        case 3:
            return guesses if sorted(guesses) == ["key", "query", "value"] else QKV
    return ["x"] * len(guesses)


def iter_role_orders(inputs: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the inputs of a call with its tokens in every order of roles, the given one first."""
    tokens = [role for role in inputs if role != "mask"]
    for order in itertools.permutations(tokens):
        remaining = iter(order)
        yield tuple(role if role == "mask" else next(remaining) for role in inputs)
