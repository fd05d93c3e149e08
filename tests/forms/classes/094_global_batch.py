import torch
import torch.nn as nn

BATCH_SIZE = 4
D_MODEL = 32
HEADS = 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(D_MODEL, D_MODEL)
        self.k = nn.Linear(D_MODEL, D_MODEL)
        self.v = nn.Linear(D_MODEL, D_MODEL)
        self.fc = nn.Linear(D_MODEL, D_MODEL)

    def forward(self, x):
        T = x.shape[1]
        d = D_MODEL // HEADS
        q = self.q(x).view(BATCH_SIZE, T, HEADS, d).transpose(1, 2)
        k = self.k(x).view(BATCH_SIZE, T, HEADS, d).transpose(1, 2)
        v = self.v(x).view(BATCH_SIZE, T, HEADS, d).transpose(1, 2)
        w = torch.softmax(q @ k.transpose(2, 3) / d ** 0.5, dim=-1)
        out = (w @ v).transpose(1, 2).reshape(BATCH_SIZE, T, D_MODEL)
        return self.fc(out)


print(Attention()(torch.rand(BATCH_SIZE, 10, D_MODEL)).shape)
