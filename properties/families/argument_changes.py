"""Changes to the arguments that a case gives to a constructor."""

from collections.abc import Mapping

from headcheck.properties.contracts.contract import Argument, Contract
from headcheck.properties.subject import Value

USUAL_WIDTH = "n_embd"
"""the name of the width in a config without fields of its own"""


def set_width(
    contract: Contract, arguments: Mapping[str, Value], width: int
) -> dict[str, Value] | None:
    """Return arguments with another width, whatever its name is, also if it is in a config.

    None if the width is not an argument: then it follows from others, and the heads always divide
    it.
    """
    changed = {
        argument.name: width
        if is_width(argument, contract)
        else _set_field(argument, contract, arguments[argument.name], width)
        for argument in contract.arguments
        if argument.name in arguments
    }
    return None if changed == dict(arguments) else changed


def is_width(argument: Argument, contract: Contract) -> bool:
    """Return whether an argument takes the width of all heads."""
    return argument.quantity in (("d_out", "d_in") if contract.square else ("d_out",))


def _set_field(argument: Argument, contract: Contract, given: Value, width: int) -> Value:
    if argument.quantity != "config" or not isinstance(given, Mapping):
        return given
    names = [each.name for each in argument.fields if is_width(each, contract)]
    names += [USUAL_WIDTH] * (not argument.fields)
    return {**given, **dict.fromkeys(names, width)}
