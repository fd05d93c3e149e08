"""The arguments of a constructor, and the quantities of a case that they get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.case import Case

if TYPE_CHECKING:  # so that listing exercises does not import torch
    from headcheck.properties.subject import Value

MADE = "object"
"""The quantity of an argument that gets an object, made by the definition named in its default."""
MAKER = ""
"""the entry of such an argument's value that names this definition, beside what it is given"""
CONSTANT = "constant"
"""The quantity of an argument that always gets its default."""
DISPENSABLE: Mapping[str, frozenset[Capability]] = {
    "bias": frozenset({Capability.BIAS, Capability.BIAS_OPTION}),
    "dropout": frozenset({Capability.DROPOUT}),
}
"""Quantities that a constructor may lack, each with the capabilities that it then loses."""
EXTRA_CONFIG: Mapping[str, int | float | bool] = {
    "dropout": 0.0,
    "attn_pdrop": 0.0,
    "resid_pdrop": 0.0,
    "bias": True,
}
"""Further config fields that classes in the style of nanoGPT and minGPT read; these values disable
dropout.
"""


@dataclass(frozen=True, slots=True)
class Argument:
    """A constructor argument: its name, and the quantity of the case that it gets.

    An optional argument is only passed if the case's value differs from its default.
    """

    name: str
    quantity: str
    default: Value = None
    optional: bool = False

    fields: tuple[Argument, ...] = ()
    """the fields of a config; empty for the usual fields"""

    def get_value(self, case: Case) -> Value:
        """Return the value of this argument in this case."""
        if self.quantity == CONSTANT:
            return self.default
        if self.quantity == MADE:
            return {MAKER: self.default} | {f.name: f.get_value(case) for f in self.fields}  # type: ignore[return-value]
        if self.quantity == "config" and self.fields:
            return {field.name: field.get_value(case) for field in self.fields}  # type: ignore[misc]
        if self.quantity == "config":
            return {**make_config(case), **EXTRA_CONFIG}
        value: Value = getattr(case, self.quantity)
        return value


def list_numbers(variables: Iterable[Argument], case: Case) -> dict[str, int | float | bool]:
    """Return the values of variables in a case, by name."""
    values = ((variable.name, variable.get_value(case)) for variable in variables)
    return {name: value for name, value in values if isinstance(value, int | float)}


def make_config(case: Case) -> dict[str, int | float | bool]:
    """Return the fields of a config object that the contract requires."""
    return {"n_embd": case.d_out, "n_head": case.heads, "block_size": case.context_length}
