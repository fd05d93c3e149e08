"""Features: weights that are products of positive features over their sum, without a softmax.

Source: Katharopoulos et al. 2020, "Transformers are RNNs", eq. 5 (arXiv:2006.16236).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Part, Problem
from headcheck.properties.parts.positions import ROTARY, Positions
from headcheck.properties.terms.capability import Capability

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract


class FeatureMap(StrEnum):
    """The features by which queries and keys are compared."""

    NONE = "queries and keys themselves, and a softmax"
    ELU = "elu(x) + 1 of each number, without a softmax"


def _find_problems(contract: Contract) -> Iterator[Problem]:
    """Check that linear attention has no part that needs a softmax."""
    held = [name for name in ("sinks", "lambdas") if contract.stores(name)]
    taken = {argument.quantity for argument in contract.arguments} & {"softcap", "dropout"}
    added = contract.positions not in (Positions.NONE, *ROTARY) or bool(contract.norm)
    added = added or contract.scale is not None
    if held or taken or added or Capability.STABLE in contract.capabilities:
        text = (
            "`features` cannot be combined with scale, norm, sinks, lambdas, softcap, dropout, or "
            "positions other than rotary ones"
        )
        yield ("feature_map",), None, text


FEATURES = Part(
    name="features",
    is_in=lambda contract: contract.feature_map is not FeatureMap.NONE,
    brings=frozenset({Capability.FEATURES}),
    breaks=frozenset({Capability.SOFTMAX, Capability.DOT_PRODUCT}),
    needed={Capability.FEATURES: 'write feature_map = "elu"'},
    find_problems=_find_problems,
    make_steps=lambda contract, case: {"features": True},
)
