"""Find out from which distance on all tokens have one learned number."""

from collections.abc import Iterator
from dataclasses import replace

from headcheck.properties.binding.bench import Bench, Settled, is_right_at
from headcheck.properties.binding.hypotheses import OTHER
from headcheck.properties.binding.usual_values import FARTHEST
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.parts.positions import Positions

TOKENS = 40
"""tokens whose distances tell one number from another"""
USUAL = (16, 20, 32, 64, 256, 512)
"""what a class may use besides 128 if no argument says it"""


def settle_farthest(bench: Bench) -> Settled:
    """Take the distance that an argument names, or that long sequences show, instead of T5's."""
    contract = bench.contract
    if contract.positions is not Positions.RELATIVE or bench.match.mistakes:
        return bench.settled
    case = contract.fit(replace(OTHER, tokens=TOKENS, context_length=TOKENS))
    nearest = contract.relative_buckets // (2 if contract.has(Capability.CAUSAL) else 4)
    for farthest in (contract.relative_farthest, *_iter_named(bench), *USUAL):
        if farthest <= nearest:  # so many distances have numbers of their own
            continue
        other = replace(contract, relative_farthest=farthest)
        if is_right_at(bench.subject, other, case):
            return replace(bench.settled, contract=other)
    return bench.settled


def _iter_named(bench: Bench) -> Iterator[int]:
    for parameter in (*bench.signature.constructor, *bench.signature.variables):
        if FARTHEST.search(parameter.name) and type(parameter.default) is int:
            yield parameter.default
