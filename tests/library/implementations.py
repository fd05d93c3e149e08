"""torch's own attention, behind the contracts of the exercises."""

import warnings
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from exercises import causal_self_attention, fused_causal_self_attention, masked_multi_head
from properties.contract import Returns, Slot, Trait

# A width of head that every kernel takes: the fused ones load several numbers at a time.
HEAD_DIM = 16

PACKED = (
    Slot("attention.in_proj_weight", ("W_q", "W_k", "W_v")),
    Slot("attention.in_proj_bias", ("b_q", "b_k", "b_v")),
    Slot("attention.out_proj.weight", ("W_o",)),
    Slot("attention.out_proj.bias", ("b_o",)),
)
MASKED = replace(masked_multi_head.CONTRACT, slots=PACKED)
CAUSAL = replace(causal_self_attention.CONTRACT, slots=PACKED)
FUSED = replace(fused_causal_self_attention.CONTRACT, sizes={"head_dim": HEAD_DIM})
FUSED_MASKED = replace(
    masked_multi_head.CONTRACT,
    returns=Returns.OUTPUT,
    traits=masked_multi_head.CONTRACT.traits - {Trait.WEIGHTS} | {Trait.FUSED},
    sizes={"head_dim": HEAD_DIM},
)


class MultiheadAttentionWithMask(nn.Module):
    """nn.MultiheadAttention as the exercise masked_multi_head wants it."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        blocked = None
        if mask is not None:
            batch, tokens, _ = x.shape
            heads = self.attention.num_heads
            # There, True hides; and batch and heads are one axis.
            blocked = (mask == 0).expand(batch, heads, tokens, tokens).flatten(0, 1)
        output, weights = self.attention(
            x, x, x, attn_mask=blocked, need_weights=True, average_attn_weights=False
        )
        return output, weights


class MultiheadAttentionCausal(nn.Module):
    """nn.MultiheadAttention as the exercise causal_self_attention wants it, without weights."""

    def __init__(self, config: object) -> None:
        super().__init__()
        width, heads = vars(config)["n_embd"], vars(config)["n_head"]
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.shape[1]
        future = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
        output: Tensor = self.attention(x, x, x, attn_mask=future, need_weights=False)[0]
        return output


def attend(
    backend: SDPBackend, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool
) -> Tensor:
    """F.scaled_dot_product_attention by this backend and no other.

    Raises RuntimeError, with torch's reasons, where the backend does not do it.
    """
    with warnings.catch_warnings(record=True) as said:
        # torch says in warnings why it leaves out a kernel.
        warnings.simplefilter("always")
        try:
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(
                    query, key, value, attn_mask=mask, is_causal=causal
                )
        except RuntimeError as error:
            reasons = [" ".join(str(each.message).split("(Triggered")[0].split()) for each in said]
            raise RuntimeError(" ".join([str(error), *dict.fromkeys(reasons)])) from error


class FusedCausal(nn.Module):
    """F.scaled_dot_product_attention as fused_causal_self_attention wants it."""

    backend: SDPBackend

    def __init__(self, block_size: int, n_head: int, n_embd: int) -> None:
        super().__init__()
        self.heads = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.c_attn(x).chunk(3, dim=-1)
        )
        mixed = attend(self.backend, q, k, v, None, causal=True)
        output: Tensor = self.c_proj(mixed.transpose(1, 2).flatten(-2))
        return output


class FusedMasked(nn.Module):
    """F.scaled_dot_product_attention as masked_multi_head wants it, but for the weights."""

    backend: SDPBackend

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.heads = num_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.W_q, self.W_k, self.W_v)
        )
        visible = None if mask is None else mask != 0
        mixed = attend(self.backend, q, k, v, visible, causal=False)
        output: Tensor = self.W_o(mixed.transpose(1, 2).flatten(-2))
        return output


def by(backend: SDPBackend, of: type[nn.Module]) -> type[nn.Module]:
    """One of the classes above with its backend chosen."""
    return type(f"{of.__name__}_{backend.name}", (of,), {"backend": backend})
