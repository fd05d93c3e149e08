"""Attention of llama2.c: rotary positions in pairs of neighbours, shared keys, two dropouts."""

from llama2c.model import Attention, ModelArgs, precompute_freqs_cis


class Llama2C(Attention):
    def __init__(self, dim, n_heads, n_kv_heads, dropout=0.0):
        sizes = {"dim": dim, "n_heads": n_heads, "n_kv_heads": n_kv_heads}
        super().__init__(ModelArgs(**sizes, dropout=dropout))

    def forward(self, x):
        tables = precompute_freqs_cis(self.head_dim, x.shape[1])
        return super().forward(x, *(each.to(x.device) for each in tables))
