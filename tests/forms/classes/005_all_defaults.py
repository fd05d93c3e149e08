import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=512, num_heads=8):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.depth = d_model // num_heads

        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.dense = nn.Linear(d_model, d_model)

    def split_heads(self, x, batch_size):
        x = x.reshape(batch_size, -1, self.num_heads, self.depth)
        return x.permute(0, 2, 1, 3)

    def forward(self, q, k, v, mask=None):
        bs = q.shape[0]
        q = self.split_heads(self.wq(q), bs)
        k = self.split_heads(self.wk(k), bs)
        v = self.split_heads(self.wv(v), bs)

        dk = torch.tensor(float(k.shape[-1]))
        logits = q @ k.mT / torch.sqrt(dk)
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -1e9)
        w = F.softmax(logits, dim=-1)
        out = (w @ v).permute(0, 2, 1, 3).reshape(bs, -1, self.d_model)
        return self.dense(out), w


if __name__ == "__main__":
    net = MultiHeadAttention()
    t = torch.randn(4, 10, 512)
    o, a = net(t, t, t)
    print(o.shape, a.shape)
