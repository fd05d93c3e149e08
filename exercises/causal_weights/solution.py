# %% [markdown]
# # Causal attention weights, in two ways
#
# Hide the future after the softmax and repair the rows, or hide it before the softmax.

# %%
import torch


# %%
def causal_weights(queries: torch.Tensor, keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the causal attention weights by renormalising, and again by masking.

    queries, keys: (tokens, d) each
    returns a pair of (tokens, tokens), equal up to rounding: first softmax, zero the future,
    divide by the row sums; then the future set to -inf before the softmax
    """
    # BEGIN SOLUTION
    tokens, d = keys.shape
    attn_scores = queries @ keys.T / d**0.5

    past = torch.tril(torch.softmax(attn_scores, dim=-1))
    renormalised = past / past.sum(dim=-1, keepdim=True)

    future = torch.ones(tokens, tokens, dtype=torch.bool, device=keys.device).triu(diagonal=1)
    masked = torch.softmax(attn_scores.masked_fill(future, -torch.inf), dim=-1)
    return renormalised, masked
    # END SOLUTION
