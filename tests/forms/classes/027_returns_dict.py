import torch
from torch import nn


class AttentionLayer(nn.Module):
    def __init__(self, hidden_size=64, num_attention_heads=4, causal=True):
        super().__init__()
        self.num_heads = num_attention_heads
        self.hidden_size = hidden_size
        self.causal = causal
        self.query_layer = nn.Linear(hidden_size, hidden_size)
        self.key_layer = nn.Linear(hidden_size, hidden_size)
        self.value_layer = nn.Linear(hidden_size, hidden_size)
        self.output_layer = nn.Linear(hidden_size, hidden_size)

    def shape(self, t):
        b, n, _ = t.size()
        return t.view(b, n, self.num_heads, self.hidden_size // self.num_heads).transpose(1, 2)

    def forward(self, hidden_states):
        b, n, d = hidden_states.size()
        q = self.shape(self.query_layer(hidden_states))
        k = self.shape(self.key_layer(hidden_states))
        v = self.shape(self.value_layer(hidden_states))
        scores = q.matmul(k.transpose(2, 3)).div((d // self.num_heads) ** 0.5)
        if self.causal:
            idx = torch.arange(n, device=scores.device)
            scores = scores.masked_fill(idx[None, :] > idx[:, None], float("-inf"))
        attn = scores.softmax(dim=3)
        ctx = attn.matmul(v).transpose(1, 2).reshape(b, n, d)
        return {"last_hidden_state": self.output_layer(ctx), "attentions": attn}
