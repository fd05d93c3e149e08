"""AlibiMultiHeadAttention of labml_nn 0.5, with the causal mask that it needs."""

import torch
from labml_nn.transformers.alibi import AlibiMultiHeadAttention


class LabmlAlibi(AlibiMultiHeadAttention):
    def __init__(self, heads, d_model, dropout_prob=0.0):
        super().__init__(heads, d_model, dropout_prob)

    def forward(self, x):
        mask = torch.ones(len(x), len(x), device=x.device).tril()[..., None]
        return super().forward(query=x, key=x, value=x, mask=mask)
