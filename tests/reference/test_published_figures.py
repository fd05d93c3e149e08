"""The figures printed in the published notebooks come out of the oracle.

Parameters are created in float32, in the order the published classes create them, and only then
made float64. The figures were computed in float32 and printed with four decimals.
"""

import pytest
import torch
from torch import Tensor, nn

from headcheck.reference import (
    Parameters,
    attention_weights,
    causal_mask,
    causal_weights_by_renormalising,
    linear,
    multi_head_attention,
    online_multi_head_attention,
    scaled_dot_product_attention,
)

# "Your journey starts with one step", an embedding of three numbers for each word.
JOURNEY = torch.tensor(
    [
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ]
)
JOURNEY_BY_SIX = JOURNEY.reshape(3, 6)


def is_printed_as(actual: Tensor, printed: list[list[float]]) -> Tensor:
    """Elementwise: half a unit of the fourth decimal, and float32's own error beside it."""
    return (actual - torch.tensor(printed, dtype=torch.float64)).abs() <= 0.5e-4 + 1e-6


def attend(x: Tensor, parameters: Parameters, heads: int = 1, is_causal: bool = True) -> Tensor:
    mask = causal_mask(x.shape[0]) if is_causal else None
    parameters = parameters.map(Tensor.double)
    return multi_head_attention(x.double(), parameters, heads, mask).output


def three_linears(d_in: int, d_out: int) -> Parameters:
    query, key, value = (nn.Linear(d_in, d_out, bias=False).weight.detach() for _ in range(3))
    return Parameters(query, key, value)


def wrapper(d_in: int, d_out: int, heads: int) -> Parameters:
    """A list of causal heads, each created whole before the next one."""
    each = [three_linears(d_in, d_out) for _ in range(heads)]
    return Parameters(
        torch.cat([head.W_q for head in each]),
        torch.cat([head.W_k for head in each]),
        torch.cat([head.W_v for head in each]),
    )


def weight_splits(d_in: int, d_out: int) -> Parameters:
    p, out = three_linears(d_in, d_out), nn.Linear(d_out, d_out)
    return Parameters(p.W_q, p.W_k, p.W_v, W_o=out.weight.detach(), b_o=out.bias.detach())


def test_attention_without_weights() -> None:
    x = JOURNEY.double()
    assert is_printed_as(
        scaled_dot_product_attention(x, x, x, scale=1.0),
        [
            [0.4421, 0.5931, 0.5790],
            [0.4419, 0.6515, 0.5683],
            [0.4431, 0.6496, 0.5671],
            [0.4304, 0.6298, 0.5510],
            [0.4671, 0.5910, 0.5266],
            [0.4177, 0.6503, 0.5645],
        ],
    ).all()


def test_self_attention_v1_from_raw_parameters() -> None:
    torch.manual_seed(42)
    query, key, value = (torch.rand(3, 2).T for _ in range(3))  # stored (in, out) there
    assert is_printed_as(
        attend(JOURNEY, Parameters(query, key, value), is_causal=False),
        [
            [1.3751, 0.8610],
            [1.4201, 0.8892],
            [1.4198, 0.8890],
            [1.3533, 0.8476],
            [1.3746, 0.8606],
            [1.3620, 0.8532],
        ],
    ).all()


def test_self_attention_v2_from_linear_layers() -> None:
    torch.manual_seed(42)
    assert is_printed_as(
        attend(JOURNEY, three_linears(3, 2), is_causal=False),
        [
            [0.3755, 0.2777],
            [0.3761, 0.2831],
            [0.3761, 0.2833],
            [0.3768, 0.2763],
            [0.3754, 0.2836],
            [0.3772, 0.2746],
        ],
    ).all()


def test_causal_weights_by_either_way() -> None:
    torch.manual_seed(42)
    p = three_linears(3, 2).map(Tensor.double)
    query, key = linear(JOURNEY.double(), p.W_q), linear(JOURNEY.double(), p.W_k)
    printed = [
        [1.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.4775, 0.5225, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.3146, 0.3450, 0.3405, 0.0000, 0.0000, 0.0000],
        [0.2459, 0.2555, 0.2538, 0.2448, 0.0000, 0.0000],
        [0.1969, 0.2193, 0.2165, 0.2053, 0.1619, 0.0000],
        [0.1682, 0.1715, 0.1707, 0.1648, 0.1511, 0.1738],
    ]
    assert is_printed_as(attention_weights(query, key, causal_mask(6)), printed).all()
    assert is_printed_as(causal_weights_by_renormalising(query, key), printed).all()


def test_two_causal_heads_side_by_side() -> None:
    torch.manual_seed(123)
    assert is_printed_as(
        attend(JOURNEY, wrapper(3, 2, heads=2), heads=2),
        [
            [-0.4519, 0.2216, 0.4772, 0.1063],
            [-0.5874, 0.0058, 0.5891, 0.3257],
            [-0.6300, -0.0632, 0.6202, 0.3860],
            [-0.5675, -0.0843, 0.5478, 0.3589],
            [-0.5526, -0.0981, 0.5321, 0.3428],
            [-0.5299, -0.1081, 0.5077, 0.3493],
        ],
    ).all()


WEIGHT_SPLITS_PRINTED = [
    [0.1569, -0.0873, 0.0210, 0.0215, -0.3243, -0.2518],
    [0.1117, -0.0547, 0.0406, -0.0213, -0.3251, -0.2993],
    [0.1196, -0.0491, 0.0318, -0.0635, -0.2788, -0.2578],
]


def test_two_heads_by_weight_splits() -> None:
    torch.manual_seed(123)
    output = attend(JOURNEY_BY_SIX, weight_splits(6, 6), heads=2)
    assert is_printed_as(output, WEIGHT_SPLITS_PRINTED).all()


def test_exchanging_query_and_key_changes_the_printed_figures() -> None:
    torch.manual_seed(123)
    p = weight_splits(6, 6)
    exchanged = Parameters(p.W_k, p.W_q, p.W_v, W_o=p.W_o, b_o=p.b_o)
    same = is_printed_as(attend(JOURNEY_BY_SIX, exchanged, heads=2), WEIGHT_SPLITS_PRINTED)
    assert same[0].all(), "the first token sees only itself, whatever the scores"
    assert not same[1:].any()


# The walk-through's CausalAttention takes the softmax of scores left over in a global variable,
# those of SelfAttention_v2 under seed 42. What it printed is therefore wrong, where it can be.
FAULTY_WRAPPER_OF_FOUR = [
    [0.4429, 0.1077, 0.5473, 0.3307],
    [0.4656, 0.2597, 0.3420, 0.2234],
    [0.4732, 0.3030, 0.2818, 0.1894],
    [0.4135, 0.2921, 0.2105, 0.1521],
    [0.4078, 0.2567, 0.2252, 0.1357],
    [0.3772, 0.2746, 0.1709, 0.1215],
]
FAULTY_WRAPPER_OF_TWO = [
    [0.4788, 0.2593],
    [0.6509, 0.0176],
    [0.6989, -0.0575],
    [0.6378, -0.0745],
    [0.5993, -0.1042],
    [0.5900, -0.1018],
]


def by_left_over_scores(p: Parameters, left_over: Parameters) -> Tensor:
    """The fault itself: p's values, weighed by the scores of another module."""
    x, p, left_over = JOURNEY.double(), p.map(Tensor.double), left_over.map(Tensor.double)
    scores = linear(x, left_over.W_q) @ linear(x, left_over.W_k).mT
    head_dim = p.W_v.shape[0] // 2
    weights = torch.softmax(scores.masked_fill(~causal_mask(6), -torch.inf) / head_dim**0.5, dim=-1)
    return weights @ linear(x, p.W_v)


def test_the_faulty_wrapper_of_four_does_not_reproduce() -> None:
    torch.manual_seed(42)
    same = is_printed_as(attend(JOURNEY, wrapper(3, 2, heads=2), heads=2), FAULTY_WRAPPER_OF_FOUR)
    assert same[0].all(), "the first token sees only itself, so no score can be wrong"
    assert same[:, :2].all(), "the first head is SelfAttention_v2 of seed 42 over again"
    assert not same[1:, 2:].all(dim=1).any(), "every later row of the second head is wrong"


def test_the_faulty_wrapper_of_two_does_not_reproduce() -> None:
    torch.manual_seed(42)
    wrapper(3, 2, heads=2)  # created just before, without seeding again
    same = is_printed_as(attend(JOURNEY, wrapper(3, 1, heads=2), heads=2), FAULTY_WRAPPER_OF_TWO)
    assert same[0].all(), "the first token sees only itself, so no score can be wrong"
    assert not same[1:].all(dim=1).any(), "every later row is wrong"


def test_the_fault_is_what_the_faulty_wrappers_printed() -> None:
    torch.manual_seed(42)
    left_over = three_linears(3, 2)
    torch.manual_seed(42)
    four, two = wrapper(3, 2, heads=2), wrapper(3, 1, heads=2)
    assert is_printed_as(by_left_over_scores(four, left_over), FAULTY_WRAPPER_OF_FOUR).all()
    assert is_printed_as(by_left_over_scores(two, left_over), FAULTY_WRAPPER_OF_TWO).all()


def test_weight_splits_right_after_the_faulty_wrappers() -> None:
    torch.manual_seed(42)
    wrapper(3, 2, heads=2), wrapper(3, 1, heads=2)  # both created before it, from the same seed
    assert is_printed_as(
        attend(JOURNEY, weight_splits(3, 2), heads=2),
        [
            [-0.6380, 0.3370],
            [-0.7576, 0.2926],
            [-0.7891, 0.2779],
            [-0.7887, 0.2770],
            [-0.6782, 0.2563],
            [-0.7425, 0.2639],
        ],
    ).all()


HEADS, TOKENS, WIDTH = 12, 1024, 768


@pytest.fixture(scope="module")
def gpt2_size() -> tuple[Tensor, Parameters]:
    """Inputs and parameters at the size of GPT-2, as the fused module's notebook draws them."""
    torch.manual_seed(42)
    attn_weight = torch.randn(3 * WIDTH, WIDTH) / (3 * WIDTH) ** 0.5
    attn_bias = torch.randn(3 * WIDTH)
    proj_weight = torch.randn(WIDTH, WIDTH) / WIDTH**0.5
    proj_bias = torch.randn(WIDTH)
    x = torch.randn(4, TOKENS, WIDTH)
    parameters = Parameters(*attn_weight.split(WIDTH), *attn_bias.split(WIDTH))
    parameters = Parameters(**dict(parameters.items()), W_o=proj_weight, b_o=proj_bias)
    return x.double(), parameters.map(Tensor.double)


@pytest.mark.sampled("sequences", [4], [1])
def test_the_size_of_gpt2(gpt2_size: tuple[Tensor, Parameters], sequences: int) -> None:
    x, p = gpt2_size
    # One sequence at a time: the weights of one alone take 100 MB.
    direct = torch.stack([multi_head_attention(s, p, HEADS, causal_mask(TOKENS)).output for s in x])
    # In float32 six right algorithms print between -18783.5859 and -18783.5996.
    assert abs(direct.sum().item() + 18783.60) < 0.05
    online = torch.stack(
        [
            online_multi_head_attention(s, p, HEADS, causal_mask(TOKENS), block=128)
            for s in x[:sequences]
        ]
    )
    assert (direct[:sequences] - online).abs().max() < 1e-13


def test_the_sum_sees_a_mask_that_is_off_by_one(gpt2_size: tuple[Tensor, Parameters]) -> None:
    x, p = gpt2_size
    mask = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril(diagonal=1)
    total = sum(online_multi_head_attention(s, p, HEADS, mask, block=128).sum() for s in x)
    assert abs(float(total) + 18815.23) < 0.05, "only 0.17 % away: no relative tolerance sees it"
