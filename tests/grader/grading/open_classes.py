"""Classes that answer no exercise by their names, and what is read off their records."""

from collections.abc import Callable

from headcheck.grader.report.records import SubmissionRecord

Grade = Callable[..., dict[str | None, SubmissionRecord]]

HEAD = "import torch\nfrom torch import nn\n\n\n"
# Its heads follow one another in a fused layer, each with its query, key and value.
STRANGE = """
class Blender(nn.Module):
    def __init__(self, width, pieces):
        super().__init__()
        self.pieces = pieces
        self.first = nn.Linear(width, 3 * width)
        self.last = nn.Linear(width, width)

    def forward(self, tokens):
        b, t, w = tokens.shape
        q, k, v = self.first(tokens).view(b, t, self.pieces, -1).transpose(1, 2).chunk(3, -1)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return self.last((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, w))
"""
# Attention without a softmax.
UNKNOWN = """
class Linear(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        q, k = (nn.functional.elu(layer(x)) + 1 for layer in (self.q, self.k))
        return q @ (k.mT @ self.v(x)) / (q @ k.sum(1, keepdim=True).mT)
"""
# The exercise of that name takes d_in, d_out, context_length and dropout, and is causal.
OTHERWISE = """
class SelfAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(3))
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key, value, mask=None):
        def split(x):
            return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        q, k, v = split(self.q_proj(query)), split(self.k_proj(key)), split(self.v_proj(value))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = scores.softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights
"""
CAUSAL_OTHERWISE = """
class CausalAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))

    def forward(self, x):
        t = x.shape[1]
        scores = self.q(x) @ self.k(x).mT / x.shape[-1] ** 0.5
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        return scores.masked_fill(future, -torch.inf).softmax(-1) @ self.v(x)
"""


def told(record: SubmissionRecord) -> list[str]:
    return [note.message for note in record.notes if note.kind == "recognised"]


def broken(record: SubmissionRecord) -> list[str]:
    return [p.name for p in record.properties if p.status not in ("passed", "not_tried")]
