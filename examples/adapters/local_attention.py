"""LocalMHA of local-attention 1.11: a token sees itself and `window_size` tokens before it."""

from local_attention.transformer import LocalMHA


class LocalAttention(LocalMHA):
    def __init__(self, width, heads, window, dropout=0.0):
        sizes = {"dim": width, "heads": heads, "dim_head": width // heads}
        super().__init__(**sizes, window_size=window - 1, causal=True, dropout=dropout)

    def forward(self, x):
        return super().forward(x)
