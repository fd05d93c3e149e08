"""The evidence for the bounds of parts: right algorithms stay within, wrong ones do not.

A ratio is the difference from the oracle over B; up to K·B, K = 4, is accepted. Each module of
`algorithms` says what is drawn, and the largest ratio that was seen.
"""

import itertools
from typing import Any

import pytest

from headcheck.properties.bounds.attention import K
from headcheck.properties.terms.case import InputContent
from tests.properties.algorithms import blocks, differences, features, gates, latents, sinks
from tests.properties.evidence import Evidence, find_worst

PARTS: dict[str, Evidence[Any]] = {
    "blocks": blocks.EVIDENCE,
    "blocks by tanh": blocks.BY_TANH,
    "differences": differences.EVIDENCE,
    "features": features.EVIDENCE,
    "gates": gates.EVIDENCE,
    "latents": latents.EVIDENCE,
    "sinks": sinks.EVIDENCE,
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
