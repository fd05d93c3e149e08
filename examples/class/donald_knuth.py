import attention_helpers
from torch import nn


class MultiHeadAttention(attention_helpers.Base):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x):
        return self.W_query(x)
