import torch
import torch.nn as nn
import torch.nn.functional as F


class DecoderCrossAttention(nn.Module):
    def __init__(self, num_heads, d_model, drop=0.0):
        super(DecoderCrossAttention, self).__init__()
        self.H = num_heads
        self.dh = d_model // num_heads
        self.Wq = nn.Linear(d_model, d_model, bias=False)
        self.Wkv = nn.Linear(d_model, 2 * d_model, bias=False)
        self.Wo = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(drop)

    def forward(self, x, y, y_mask=None):
        B, Tx, D = x.shape
        Ty = y.shape[1]
        q = self.Wq(x).view(B, Tx, self.H, self.dh)
        k, v = self.Wkv(y).view(B, Ty, 2, self.H, self.dh).unbind(dim=2)
        e = torch.einsum('bihd,bjhd->bhij', q, k) / self.dh ** 0.5
        if y_mask is not None:
            e = torch.where(y_mask[:, None, None, :], e, torch.tensor(-1e30, dtype=e.dtype))
        a = self.drop(F.softmax(e, -1))
        o = torch.einsum('bhij,bjhd->bihd', a, v)
        return self.Wo(o.reshape(B, Tx, D))
