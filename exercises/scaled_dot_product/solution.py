# %% [markdown]
# # Scaled dot-product attention
#
# Three weight matrices turn the tokens into queries, keys and values.

# %%
import torch


# %%
def scaled_dot_product_attention(
    x: torch.Tensor,
    W_query: torch.Tensor,
    W_key: torch.Tensor,
    W_value: torch.Tensor,
) -> torch.Tensor:
    """Let each token's query choose among all keys, and average the values accordingly.

    softmax(Q Kᵀ / √d_out) V, with Q = x W_query, K = x W_key, V = x W_value

    x:                       (tokens, d_in)
    W_query, W_key, W_value: (d_in, d_out)
    returns                  (tokens, d_out)
    """
    # BEGIN SOLUTION
    queries = x @ W_query
    keys = x @ W_key
    values = x @ W_value
    d_out = keys.shape[-1]
    attn_scores = queries @ keys.T / d_out**0.5
    attn_weights = torch.softmax(attn_scores, dim=-1)
    return attn_weights @ values
    # END SOLUTION
