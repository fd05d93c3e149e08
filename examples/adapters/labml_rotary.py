"""RotaryPEMultiHeadAttention of labml_nn 0.5: half of each head has rotary positions."""

import torch
from labml import tracker
from labml_nn.transformers.rope import RotaryPEMultiHeadAttention

tracker.debug = lambda *_: None  # labml 0.5 has no such function, and labml_nn calls it


class LabmlRotary(RotaryPEMultiHeadAttention):
    def __init__(self, heads, d_model, dropout_prob=0.0):
        super().__init__(heads, d_model, 0.5, dropout_prob)

    def forward(self, x):
        mask = torch.ones(len(x), len(x), device=x.device).tril()[..., None]
        return super().forward(query=x, key=x, value=x, mask=mask)
