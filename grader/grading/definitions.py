"""The definitions of a submission, as its outline tells them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from headcheck.properties.contracts.contract import Contract, Entry
from headcheck.properties.signatures.signature import Maker, Signature, SignatureParameter
from headcheck.properties.signatures.vocabulary import takes_three_tokens
from headcheck.properties.violations.violation import format_location


@dataclass(frozen=True, slots=True)
class DefinitionSignature:
    """A class or function of the submission, as read from the source."""

    name: str
    is_class: bool
    cell: int | None
    line: int
    required: tuple[str, ...]
    optional: tuple[str, ...]
    open_ended: bool
    bases: tuple[str, ...] = ()
    alias_of: str | None = None
    signature: Signature | None = None
    """the signature of a class with a `forward`, or of a function that may be attention"""
    constructor: str | None = None
    """if the class has no constructor, a sentence about the method that was meant to be one"""

    def accepts(self, contract: Contract) -> bool:
        """Return whether the definition can be called with the argument names of the contract."""
        names = {a.name for a in contract.arguments}
        needed = {a.name for a in contract.arguments if not a.optional}
        if contract.entry in (Entry.FUNCTION, Entry.TRANSFER):
            names = needed = {*contract.call, *names}
        elif contract.entry is Entry.CLASS and not names:
            names = set(contract.call)
        known = {*self.required, *self.optional}
        return set(self.required) <= names and (self.open_ended or needed <= known)

    @property
    def could_be_module(self) -> bool:
        """Whether it is a class with a base class; a class without a base cannot be a module."""
        return self.is_class and bool(self.bases)


def parse_outline(outline: Mapping[str, Any]) -> list[DefinitionSignature]:
    """Return the outline's classes and functions, converted to their types."""
    signatures = []
    variables = outline.get("variables", ())
    entries = {str(entry["name"]): entry for entry in outline.get("definitions", ())}
    for entry in outline.get("definitions", ()):
        parameters = entry.get("parameters") or ()
        plain = [p for p in parameters if p["kind"] in ("positional", "keyword")]
        signatures.append(
            DefinitionSignature(
                name=str(entry["name"]),
                is_class=entry["kind"] == "class",
                cell=entry.get("cell"),
                line=int(entry["line"]),
                required=tuple(str(p["name"]) for p in plain if not p["has_default"]),
                optional=tuple(str(p["name"]) for p in plain if p["has_default"]),
                open_ended=any(p["kind"] in ("*", "**") for p in parameters),
                bases=tuple(str(base) for base in entry.get("bases", ())),
                alias_of=entry.get("alias_of"),
                signature=_parse_signature(entry, variables, entries),
                constructor=_describe_near_constructor(entry),
            )
        )
    return signatures


def _parse_signature(
    entry: Mapping[str, Any],
    variables: Sequence[Mapping[str, Any]],
    entries: Mapping[str, Mapping[str, Any]],
) -> Signature | None:
    makers = {
        (c["method"], c["parameter"]): tuple(
            _parse_maker(entries[name], c["attribute"]) for name in c["makers"]
        )
        for c in entry.get("companions", ())
    }
    constructor = _parse_parameters(entry.get("parameters"), "__init__", makers)
    call = _parse_parameters(entry.get("forward"), "forward", makers)
    name, only = str(entry["name"]), bool(entry.get("for_inference", False))
    if entry["kind"] == "class" and entry.get("forward") is not None:
        read = parse_variables(variables, name)
        doc, reset, forgets = (str(entry.get(key, "")) for key in ("doc", "reset", "forgets"))
        signature = Signature(name, constructor, call, read, doc=doc)
        later = tuple(map(str, entry.get("set_later", ())))
        signature = replace(signature, reset=reset, forgets=forgets, set_later=later)
        first, counted = (str(entry.get(key, "")) for key in ("batch_first", "own_token"))
        signature = replace(signature, batch_first=first, own_token=counted)
        options = _parse_parameters(entry.get("options"))
        return replace(signature, for_inference=only, options=options)
    if entry["kind"] == "function" and takes_three_tokens(constructor):
        doc = str(entry.get("doc", ""))
        own = Signature(name, (), constructor, entry=Entry.FUNCTION, doc=doc)
        return replace(own, for_inference=only)
    return None


def _parse_parameters(
    taken: Sequence[Mapping[str, Any]] | None,
    method: str = "",
    makers: Mapping[tuple[str, str], tuple[Maker, ...]] = MappingProxyType({}),
) -> tuple[SignatureParameter, ...]:
    return tuple(
        SignatureParameter(
            str(p["name"]),
            bool(p["has_default"]),
            p.get("default"),
            by_name=p["kind"] == "keyword",
            is_switch=bool(p.get("is_switch")),
            makers=makers.get((method, p["name"]), ()),
        )
        for p in taken or ()
        if p["kind"] in ("positional", "keyword")
    )


def _parse_maker(entry: Mapping[str, Any], attribute: str) -> Maker:
    taken = entry.get("parameters") if entry["kind"] == "class" else None
    return Maker(str(entry["name"]), str(attribute), _parse_parameters(taken))


def parse_variables(
    variables: Sequence[Mapping[str, Any]], name: str
) -> tuple[SignatureParameter, ...]:
    """Return the variables that a definition reads, converted from an outline's entries."""
    return tuple(
        SignatureParameter(str(v["name"]), has_default=True, default=v["value"])
        for v in variables
        if name in v["read_by"] and v["value"] is not None
    )


def _describe_near_constructor(entry: Mapping[str, Any]) -> str | None:
    """Say that a class has no constructor, and which method was probably meant as one."""
    near = entry.get("near_constructor")
    if near is None:
        return None
    where = format_location(near["cell"], near["line"])
    return f"there is no `__init__` in `{entry['name']}`; did you mean `{near['written']}`?{where}"
