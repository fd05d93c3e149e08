"""The evidence for the bounds of parts: right algorithms stay within, wrong ones do not.

A ratio is the difference from the oracle over B; up to K·B, K = 4, is accepted. Each module of
`algorithms` says what is drawn, and the largest ratio that was seen.
"""

import itertools
from typing import Any

import pytest
import torch

from headcheck.properties.bounds.attention import K
from headcheck.properties.bounds.positions import bound_angles
from headcheck.properties.contracts.variant import get_variant
from headcheck.properties.terms.case import Case, InputContent
from headcheck.reference import rotary_angles
from tests.properties.algorithms import (
    blocks,
    differences,
    features,
    gates,
    latents,
    scaled_rotations,
    sinks,
    variants,
)
from tests.properties.evidence import Evidence, find_worst

PARTS: dict[str, Evidence[Any]] = {
    "blocks": blocks.EVIDENCE,
    "blocks by tanh": blocks.BY_TANH,
    "differences": differences.EVIDENCE,
    "features": features.EVIDENCE,
    "gates": gates.EVIDENCE,
    "latents": latents.EVIDENCE,
    "sinks": sinks.EVIDENCE,
    "rotations": variants.BY_ROTATION,
    "distances": variants.BY_DISTANCE,
    "limits": variants.SOFTCAPPED,
    **scaled_rotations.EVIDENCE,
}
DTYPES = ["float64", "float32", "bfloat16"]
TRIED = pytest.mark.sampled(
    ("part", "dtype"), list(itertools.product(PARTS, DTYPES)), [(part, DTYPES[0]) for part in PARTS]
)


@TRIED
def test_right_algorithms_stay_within_the_bound(part: str, dtype: str) -> None:
    evidence = PARTS[part]
    worst = find_worst(evidence.measure_output, evidence.right, evidence.list_cases(dtype))
    print(worst)  # noqa: T201  # seen with -s
    assert worst[0] <= K


@TRIED
def test_right_gradients_stay_within_their_limit(part: str, dtype: str) -> None:
    evidence = PARTS[part]
    # Two of five: no number of spreads that follow each other divides five, so all take part.
    cases = [case for i, case in enumerate(evidence.list_cases(dtype)) if i % 5 in (0, 3)]
    worst = find_worst(evidence.measure_gradients, evidence.right, cases)
    print(worst)  # noqa: T201  # seen with -s
    assert worst[0] <= K


@pytest.mark.parametrize("part", PARTS)
def test_wrong_algorithms_are_far_beyond_the_bound(part: str) -> None:
    evidence = PARTS[part]
    usual = [
        case
        for case, spread in evidence.list_cases("float64")
        if spread == evidence.spreads[0] and case.content is InputContent.NORMAL and case.tokens > 1
    ]
    for name, compute in evidence.wrong.items():
        ratios = [evidence.measure_output(case, evidence.spreads[0], compute) for case in usual]
        reached = sum(ratio > evidence.least for ratio in ratios)
        assert reached >= evidence.share * len(ratios), f"{name}: {sorted(ratios)[:5]}"


@pytest.mark.parametrize("name", scaled_rotations.SCALINGS)
def test_angles_in_float32_are_within_their_bound(name: str) -> None:
    """Angles alone, where nothing else hides their errors: at most 0.62 of the bound."""
    contract, ratios = scaled_rotations.get_contract(name), []
    scaling = scaled_rotations.SCALINGS[name]
    for width in range(4, 130, 2):
        t = torch.zeros(300, width, dtype=torch.float64)
        variant = get_variant(contract, Case(heads=1, head_dim=width))
        bound = bound_angles(t, variant, 2.0**-24)[:, : width // 2]
        position = torch.arange(300, dtype=torch.float32)[:, None]
        exact = rotary_angles(300, width, scaled_rotations.BASE, t, variant.scaling)
        for frequencies, _ in scaled_rotations.RIGHT[name].values():
            angle = position * frequencies(width // 2, torch.float32, scaling)
            off = (angle.double() - exact).abs()
            assert (off <= bound).all(), f"{width}: {(off / bound).nan_to_num().max()}"
            ratios.append(float((off / bound).nan_to_num(0.0).max()))
    print(max(ratios))  # noqa: T201  # seen with -s
