"""A parameterless module, defined and called inside of the function, on a batch of one."""

import torch
from torch import nn


def simplified_attention(x):
    class Attention(nn.Module):
        softmax = nn.Softmax(dim=2)

        def forward(self, batch):
            scores = torch.bmm(batch, batch.transpose(1, 2))
            return torch.bmm(self.softmax(scores), batch)

    return Attention()(x.unsqueeze(0)).squeeze(0)
