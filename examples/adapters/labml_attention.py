"""MultiHeadAttention of labml_nn 0.5: tokens before the batch, in masks, too."""

from labml import tracker
from labml_nn.transformers.mha import MultiHeadAttention

tracker.debug = lambda *_: None  # labml 0.5 has no such function, and labml_nn calls it


class LabmlAttention(MultiHeadAttention):
    def __init__(self, heads, d_model, dropout_prob=0.0):
        super().__init__(heads, d_model, dropout_prob)

    def forward(self, query, key, value, mask=None):
        mask = None if mask is None else mask.permute(1, 2, 0)
        return super().forward(query=query, key=key, value=value, mask=mask)
