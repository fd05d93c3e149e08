"""Features: weights that are products of positive features over their sum, without a softmax.

Source: Katharopoulos et al. 2020, "Transformers are RNNs", eq. 5 (arXiv:2006.16236).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from headcheck.properties.parts.part import Found, Part, Problem
from headcheck.properties.parts.positions import ROTARY, Positions
from headcheck.properties.terms.capability import Capability

if TYPE_CHECKING:
    from headcheck.properties.contracts.contract import Contract


LINEAR = re.compile(r"lin(ear)?_?(self_?|cross_?|multi_?head_?)?att", re.IGNORECASE)
"""the names of classes of linear attention"""
FEATURE_EPSILONS = (0.0, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5)
"""the numbers that are added to sums, of which one is looked for in a class"""


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


def _read(contract: Contract, found: Found) -> Iterator[Contract]:
    """Yield the contract, and that of linear attention if the class says that it is some."""
    if LINEAR.search(contract.name) and not contract.has(Capability.FEATURES):
        kept = contract.capabilities - {Capability.STABLE}
        yield replace(contract, capabilities=kept, feature_map=FeatureMap.ELU)
        if not contract.mappings:
            return  # a function, which may be given features: without them, it has no softmax
    yield contract


FEATURES = Part(
    name="features",
    is_in=lambda contract: contract.feature_map is not FeatureMap.NONE,
    brings=frozenset({Capability.FEATURES}),
    breaks=frozenset({Capability.SOFTMAX, Capability.DOT_PRODUCT}),
    needed={Capability.FEATURES: 'write feature_map = "elu"'},
    find_problems=_find_problems,
    make_steps=lambda contract, case: {
        "features": True,
        "feature_epsilon": contract.feature_epsilon,
    },
    keys=("feature_epsilon",),
    missing='feature_epsilon: write feature_map = "elu"',
    describe=lambda contract: "products of features instead of a softmax",
    read=_read,
)
SMOOTHED = Part(
    name="a number added to sums of features",
    is_in=lambda contract: contract.feature_epsilon > 0,
    breaks=frozenset({Capability.CONSTANT_SUM, Capability.NORMALISED}),
)
