from dataclasses import dataclass

import torch
from torch import nn, Tensor
from torch.nn.functional import scaled_dot_product_attention


@dataclass(frozen=True)
class AttnCfg:
    width: int = 32
    n_heads: int = 4
    p: float = 0.0


class Attention(nn.Module):
    def __init__(self, cfg: AttnCfg = AttnCfg()):
        super().__init__()
        self.cfg = cfg
        self.q = nn.Linear(cfg.width, cfg.width)
        self.k = nn.Linear(cfg.width, cfg.width)
        self.v = nn.Linear(cfg.width, cfg.width)
        self.o = nn.Linear(cfg.width, cfg.width)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.cfg.n_heads, -1)).movedim(-2, -3)

    def forward(self, x: Tensor, pad: Tensor | None = None) -> Tensor:
        n = x.size(-2)
        keep = torch.tril(torch.ones(n, n, dtype=torch.bool, device=x.device))
        if pad is not None:
            keep = keep & ~pad[:, None, None, :]
        y = scaled_dot_product_attention(
            self._heads(self.q(x)), self._heads(self.k(x)), self._heads(self.v(x)),
            attn_mask=keep, dropout_p=self.cfg.p * self.training)
        return self.o(y.movedim(-3, -2).flatten(-2))
