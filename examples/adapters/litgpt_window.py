"""CausalSelfAttention of litgpt 0.5 with a window; no chunk is longer than it, as litgpt asks."""

import torch
from litgpt_attention import NO_CACHE, LitGPT


class WindowedLitGPT(LitGPT):
    def __init__(self, width, heads, groups, window):
        kinds = {"sliding_window_size": window, "sliding_window_indices": [1], "n_layer": 1}
        super().__init__(width, heads, groups, **kinds)

    def forward(self, x, cache=NO_CACHE):
        if cache is NO_CACHE:
            return super().forward(x)
        outputs = []
        for chunk in x.split(self.config.sliding_window_size, dim=1):
            output, cache = super().forward(chunk, cache)
            outputs.append(output)
        return torch.cat(outputs, dim=1), cache
