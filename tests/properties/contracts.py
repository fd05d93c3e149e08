"""Contracts to draw cases for, and what every case must keep."""

import pytest
from hypothesis import Phase, settings

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.terms.case import Case, MaskForm

SLUGS = sorted(BY_SLUG)
SMALL = [slug for slug in SLUGS if BY_SLUG[slug].contract.sizes is None]
MULTI_HEAD = BY_SLUG["multi_head_attention"].contract
MASKED = BY_SLUG["masked_multi_head"].contract
PLAIN = BY_SLUG["self_attention_v2"].contract
SEARCH_SETTINGS = settings(
    database=None, derandomize=True, max_examples=500, phases=(Phase.generate, Phase.shrink)
)

SOME = (
    "linear_layer", "scaled_dot_product", "self_attention_v2", "weight_transfer",
    "multi_head_attention", "cross_attention", "padding_mask", "llama_attention", "gpt2_size",
    "masked_multi_head",
)  # fmt: skip
"""one of each kind: in ordinary runs these stand for all"""

every_contract = pytest.mark.sampled("slug", SLUGS, SOME)
every_small_contract = pytest.mark.sampled("slug", SMALL, [s for s in SOME if s in SMALL])


def get_contract(slug: str) -> Contract:
    return BY_SLUG[slug].contract


def assert_allowed(case: Case, contract: Contract) -> None:
    """What the docstrings of the contract's capabilities promise about every case."""
    assert contract.fit(case) == case
    assert 1 <= case.tokens <= case.context_length
    assert min(case.batch, case.d_in, case.heads, case.head_dim) >= 1
    assert contract.has(Capability.BATCH) or case.batch == 1
    assert contract.has(Capability.HEADS) or case.heads == 1
    assert contract.has(Capability.BIAS_OPTION) or not case.bias
    assert contract.has(Capability.DROPOUT) or case.dropout == 0
    masked = contract.has(Capability.MASK) or contract.has(Capability.PADDING)
    assert masked or case.mask_form is MaskForm.NONE
    assert contract.has(Capability.CONTEXT) or case.context_length == case.tokens
    assert not contract.square or case.d_in == case.d_out
    for name, size in (contract.sizes or {}).items():
        assert getattr(case, name) == size
