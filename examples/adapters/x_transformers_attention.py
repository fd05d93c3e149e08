"""Attention of x-transformers 2.31 with its attn_mask; its `mask` also empties hidden outputs."""

from x_transformers import Attention


class XTransformersAttention(Attention):
    def forward(self, x, mask=None):
        return super().forward(x, attn_mask=mask)
