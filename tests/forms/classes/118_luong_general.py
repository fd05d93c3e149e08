import torch
import torch.nn as nn
import torch.nn.functional as F


class LuongAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.attn = nn.Linear(hidden_size, hidden_size, bias=False)
        self.concat = nn.Linear(2 * hidden_size, hidden_size, bias=False)

    def forward(self, decoder_out, encoder_outs, src_mask=None):
        # decoder_out (B, Td, H), encoder_outs (B, Te, H)
        energy = decoder_out @ self.attn(encoder_outs).transpose(1, 2)
        if src_mask is not None:
            energy = energy.masked_fill(src_mask.unsqueeze(1) == 0, -1e9)
        weights = F.softmax(energy, dim=-1)
        context = weights @ encoder_outs
        out = torch.tanh(self.concat(torch.cat([context, decoder_out], dim=-1)))
        return out, weights
