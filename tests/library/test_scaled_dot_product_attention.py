"""F.scaled_dot_product_attention keeps every property by each of its kernels.

What a kernel does not do (another dtype, a mask, this device) is skipped with torch's own reason.
"""

import warnings
from dataclasses import replace

import pytest
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from headcheck.exercises import BY_SLUG
from headcheck.grader.ui.pytest_plugin.plugin import apply_outcome
from headcheck.grader.ui.pytest_plugin.suite import PropertySuite, PropertyVariant
from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.families.gradients import (
    the_gradient_of_the_input_is_right,
    the_gradients_of_the_weights_are_right,
)
from headcheck.properties.families.sizes import a_long_sequence_is_right_too
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.property import Property
from headcheck.properties.terms.size_rules import parse_sizes

CASES = 12
BACKENDS = (
    SDPBackend.MATH,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.CUDNN_ATTENTION,
)
# The fused kernels load several numbers at a time, so not every width of a head is for them.
SIZES = parse_sizes("head_dim%16 head_dim<=128")
CAUSAL = BY_SLUG["fused_causal_self_attention"].contract
MASKED = replace(
    BY_SLUG["masked_multi_head"].contract,
    returns=Returns.OUTPUT,
    capabilities=BY_SLUG["masked_multi_head"].contract.capabilities - {Capability.WEIGHTS}
    | {Capability.FUSED},
)


def attend(
    backend: SDPBackend,
    heads: int,
    packed: tuple[Tensor, Tensor, Tensor],
    mask: Tensor | None = None,
    *,
    causal: bool = False,
) -> Tensor:
    """Split the heads, let this backend and no other attend, and merge them.

    Raises RuntimeError, with torch's reasons, where the backend does not do it.
    """
    query, key, value = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in packed)
    with warnings.catch_warnings(record=True) as said:
        # In warnings torch says why it leaves out a kernel.
        warnings.simplefilter("always")
        try:
            with sdpa_kernel(backend):
                mixed = F.scaled_dot_product_attention(
                    query, key, value, attn_mask=mask, is_causal=causal
                )
        except RuntimeError as error:
            reasons = (str(each.message).partition(" (Triggered")[0] for each in said)
            raise RuntimeError(" ".join([str(error), *dict.fromkeys(reasons)])) from error
    return mixed.transpose(1, 2).flatten(-2)


class Causal(nn.Module):
    """It as the exercise fused_causal_self_attention wants it."""

    backend: SDPBackend

    def __init__(self, block_size: int, n_head: int, n_embd: int) -> None:
        super().__init__()
        self.heads = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        output: Tensor = self.c_proj(attend(self.backend, self.heads, (q, k, v), causal=True))
        return output


class Masked(nn.Module):
    """It as the exercise masked_multi_head wants it, but that it returns no weights."""

    backend: SDPBackend

    def __init__(self, d_model: int = 512, num_heads: int = 8) -> None:
        super().__init__()
        self.heads = num_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        packed = self.W_q(x), self.W_k(x), self.W_v(x)
        visible = None if mask is None else mask != 0
        output: Tensor = self.W_o(attend(self.backend, self.heads, packed, visible))
        return output


def suite_of(backend: SDPBackend, made: type[nn.Module], contract: Contract) -> PropertySuite:
    chosen = type(made.__name__, (made,), {"backend": backend})
    title = f"{made.__name__} by {backend.name}"
    return PropertySuite({contract.name: chosen}, contract, CASES, sizes=SIZES, title=title)


SUITES = {
    f"{backend.name.lower()}-{made.__name__.lower()}": suite_of(backend, made, contract)
    for backend in BACKENDS
    for made, contract in ((Causal, CAUSAL), (Masked, MASKED))
}


def test_library_satisfies_the_property(suite: PropertySuite, cell: PropertyVariant) -> None:
    """`apply_outcome` fails or skips as the outcome says."""
    apply_outcome(suite.get_outcome(cell))


def test_a_search_finds_no_fault_in_the_library(
    suite: PropertySuite, searched: PropertyVariant
) -> None:
    """`apply_outcome` fails or skips as the outcome says."""
    apply_outcome(suite.search(searched))


# Some kernels compute in sixteen bits only. What is right is decided in float64, but whether they
# are as exact as their own dtype allows can be told.
@pytest.mark.parametrize("name", SUITES)
@pytest.mark.parametrize(
    "wanted",
    [
        it_equals_the_equation,
        a_long_sequence_is_right_too,
        the_gradient_of_the_input_is_right,
        the_gradients_of_the_weights_are_right,
    ],
    ids=lambda wanted: wanted.name,
)
def test_library_is_as_exact_as_bfloat16(name: str, wanted: Property, device: str) -> None:
    """`apply_outcome` fails or skips as the outcome says."""
    apply_outcome(SUITES[name].get_outcome(PropertyVariant(wanted, device, "bfloat16")))
