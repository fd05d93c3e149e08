"""linear is x Wᵀ + b."""

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import nn

from headcheck.reference import linear


def test_each_output_is_a_dot_product_with_a_row_of_the_weight() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0], [10.0, 100.0]])
    bias = torch.tensor([0.5, 0.25, 0.0])
    assert linear(x, weight).tolist() == [[1, 2, 210], [3, 4, 430]]
    assert linear(x, weight, bias).tolist() == [[1.5, 2.25, 210], [3.5, 4.25, 430]]


def test_shapes_are_checked_while_these_tests_run() -> None:
    with pytest.raises(TypeCheckError):
        linear(torch.ones(2, 3), torch.ones(4, 5))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (0, 3)])
def test_it_equals_torchs_layer_in_values_and_gradients(batch: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(5, 4, bias=bias, dtype=torch.float64)
    x = torch.randn(*batch, 5, dtype=torch.float64, requires_grad=True)
    ours, theirs = linear(x, layer.weight, layer.bias), layer(x)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)
    cotangent = torch.randn_like(ours)
    wanted = [x, *layer.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(ours, wanted, cotangent),
        torch.autograd.grad(theirs, wanted, cotangent),
        rtol=0,
        atol=1e-13,
    )
