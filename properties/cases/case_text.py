"""Convert a case to one exact line of text, and back.

`str(case)` is for readers and omits details. This line holds every value that differs from the
default, so that it can be copied into a command: `batch=1 tokens=2 … mask_form=query_key seed=726`.
"""

from dataclasses import fields
from enum import StrEnum
from typing import Any

from headcheck.properties.cases.case_tensors import DTYPES
from headcheck.properties.terms.case import Case

ALWAYS_SHOWN = ("batch", "tokens", "context_length", "d_in", "heads", "head_dim", "dtype", "seed")
FIELDS = {field.name: field for field in fields(Case)}
MAX_SIZE = 1 << 20
MAX_SHARPNESS = 1 << 10
MAX_SEED = (1 << 32) - 1
LIMITS = {
    "seed": (0, MAX_SEED),
    "sharpness": (1, MAX_SHARPNESS),
    "group": (0, MAX_SIZE),
    "window": (0, MAX_SIZE),
    "block": (0, MAX_SIZE),
    "d_latent": (0, MAX_SIZE),
    "rope_dim": (0, MAX_SIZE),
    "d_context": (0, MAX_SIZE),
}
"""the smallest and largest value of each number that is not a size"""


class BadCase(ValueError):
    """A text does not describe a case; the message says why in one line."""


def format_case(case: Case) -> str:
    """Return a case as one line that `parse_case` reads."""
    values = {name: getattr(case, name) for name in FIELDS}
    shown = (n for n in FIELDS if n in ALWAYS_SHOWN or values[n] != FIELDS[n].default)
    return " ".join(f"{name}={_format_value(values[name])}" for name in shown)


def parse_case(text: str) -> Case:
    """Return the case that a line describes; other fields have default values. Raises BadCase."""
    words = [word.partition("=") for word in text.split()]
    if not words:
        raise BadCase("this is not a case; write one such as batch=1 tokens=2 d_in=3")
    values: dict[str, Any] = {}
    for name, equals, value in words:
        if name not in FIELDS or not equals:
            known = ", ".join(FIELDS)
            raise BadCase(f"`{name}{equals}{value}` is not a value of a case; there are {known}")
        if name in values:
            raise BadCase(f"`{name}` is given twice")
        values[name] = _parse_value(name, value)
    values.setdefault("context_length", values.get("tokens", Case().tokens))
    values.setdefault("tokens", min(Case().tokens, values["context_length"]))
    if values["tokens"] > values["context_length"]:
        raise BadCase("there are more tokens than context_length allows")
    return Case(**values)


def _format_value(value: object) -> str:
    if isinstance(value, StrEnum):
        return value.name.lower()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_value(name: str, text: str) -> object:
    default = FIELDS[name].default
    match default:
        case StrEnum():
            return _choose(name, text, {member.name.lower(): member for member in type(default)})
        case bool():
            return _choose(name, text, {"true": True, "false": False})
        case float():
            return _parse_limit(name, text) if name == "softcap" else _parse_rate(name, text)
        case int():
            return _parse_integer(name, text)
    if name == "dtype":
        return _choose(name, text, {dtype: dtype for dtype in DTYPES})
    return text


def _choose(name: str, text: str, known: dict[str, Any]) -> object:
    if text not in known:
        raise BadCase(f"`{name}={text}`: {name} is one of {', '.join(known)}")
    return known[text]


def _parse_rate(name: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < 1:
        raise BadCase(f"`{name}={text}`: {name} is a number from 0 to less than 1")
    return rate


def _parse_limit(name: str, text: str) -> float:
    try:
        limit = float(text)
    except ValueError:
        limit = -1.0
    if not 0 <= limit <= MAX_SIZE:
        raise BadCase(f"`{name}={text}`: {name} is a number from 0 to {MAX_SIZE}")
    return limit


def _parse_integer(name: str, text: str) -> int:
    low, high = LIMITS.get(name, (1, MAX_SIZE))
    digits = text.isascii() and text.isdecimal() and len(text) < 12
    if not (digits and low <= int(text) <= high):
        raise BadCase(f"`{name}={text}`: {name} is a whole number from {low} to {high}")
    return int(text)
