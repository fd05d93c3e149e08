"""Find the small number that a norm adds before it takes the root, or that sums get as divisors."""

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType

from headcheck.properties.binding.hypotheses import Sizes
from headcheck.properties.binding.matching import measure_error
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.contracts.contract import Contract, FeatureMap
from headcheck.properties.contracts.implied_capabilities import restate_steps
from headcheck.properties.mistakes.pipeline import StepOverrides
from headcheck.properties.parts.features import FEATURE_EPSILONS
from headcheck.properties.parts.norms import EPSILONS, LENGTH_ALONE, Norm

TELLING = (1e-5, LENGTH_ALONE)
"""the numbers that differ enough from the usual one to hide a mistake in one call"""


def refine(
    contract: Contract,
    sizes: Sizes,
    probe: CallProbe,
    place: int,
    overrides: StepOverrides = MappingProxyType({}),
) -> Contract:
    """Return the contract with the norm's small number that explains the output best.

    Tokens are made tiny for this: otherwise the smallest numbers show no effect in float64.
    """
    if contract.feature_map is not FeatureMap.NONE:
        sums = (replace(contract, feature_epsilon=each) for each in FEATURE_EPSILONS)
        exact = min(sums, key=lambda c: measure_error(c, sizes.case, probe.seen, place, overrides))
        return restate_steps(exact)
    if contract.norm is Norm.NONE or contract.call_form.scale is not None:
        return contract
    every = (replace(contract, norm_epsilon=epsilon) for epsilon in EPSILONS)
    seen = probe.observe_tiny() or probe.seen
    return min(every, key=lambda c: measure_error(c, sizes.case, seen, place, overrides))


def iter_epsilons(contract: Contract) -> Iterator[Contract]:
    """Yield the contract with the small numbers of norms beside which a mistake can be told."""
    yield contract
    if contract.norm is not Norm.NONE:
        yield from (replace(contract, norm_epsilon=each) for each in TELLING)
