# %% [markdown]
# # A linear layer by hand
#
# `nn.Linear` is one matrix product and one addition. Write it yourself.

# %%
import torch


# %%
def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Apply a linear layer: every vector of x times the transposed weight, plus the bias.

    x:      (..., d_in), any number of leading dimensions, none included
    weight: (d_out, d_in), stored the way nn.Linear stores it
    bias:   (d_out,)
    returns (..., d_out)
    """
    # BEGIN SOLUTION
    return x @ weight.T + bias
    # END SOLUTION
