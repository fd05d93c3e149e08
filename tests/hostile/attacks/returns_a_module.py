"""Returns itself."""


class MultiHeadAttention(Twin):
    def forward(self, x):
        return self
