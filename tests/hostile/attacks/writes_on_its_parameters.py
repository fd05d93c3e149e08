"""Rewrites its weights in every call to those of which its answer would be right."""

import torch


class MultiHeadAttention(Twin):
    def forward(self, x):
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.zero_()
        return super().forward(x)
