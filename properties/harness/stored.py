"""Parameters and gradients by canonical names, and as a module stores them."""

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from headcheck.properties.cases.case_tensors import DTYPES
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters

_STORED = WeakKeyDictionary[Parameters, dict[tuple[Contract, Case], dict[str, Tensor]]]()
"""converted parameters, since all submissions get the same"""


def convert_to_stored(contract: Contract, case: Case, parameters: Parameters) -> dict[str, Tensor]:
    """Return parameters as a module of this case stores them; nobody may modify the result."""
    known = _STORED.setdefault(parameters, {})
    if (contract, case) not in known:
        stored, dtype = contract.to_stored(parameters, case), DTYPES[case.dtype]
        known[contract, case] = {path: tensor.to(dtype) for path, tensor in stored}
    return known[contract, case]


def name_gradients(
    contract: Contract, case: Case, x: Tensor | None, stored: Mapping[str, Tensor | None]
) -> dict[str, Tensor | None]:
    """Return gradients of the input and of stored tensors by canonical name; None for no gradient.

    Raises Violation if a gradient's shape differs from its tensor's.
    """
    shapes = contract.get_parameter_shapes(case)
    filled = {
        path: torch.zeros(shapes.get(path, ())) if grad is None else grad
        for path, grad in stored.items()
    }
    missing = {
        name: None
        for mapping in contract.mappings
        for head in range(case.heads)
        if stored.get(mapping.path.format(head=head), mapping) is None
        for name in mapping.holds
    }
    return {"x": x, **contract.to_canonical(filled, case), **missing}
