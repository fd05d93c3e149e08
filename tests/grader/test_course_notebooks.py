"""Notebooks in the style of a course, graded: what is right in them, what is wrong, and why."""

import textwrap

import pytest

from headcheck.grader.report.records import SubmissionRecord
from tests.grader.conftest import GradeNotebook


def troubles(record: SubmissionRecord) -> list[str]:
    return [p.name for p in record.properties if p.status not in ("passed", "not_tried")]


def first_message(record: SubmissionRecord) -> str:
    return next(p.message for p in record.properties if p.status not in ("passed", "not_tried"))


def kinds(record: SubmissionRecord) -> set[str]:
    return {note.kind for note in record.notes}


def assert_full_marks(record: SubmissionRecord) -> None:
    assert troubles(record) == [], first_message(record)
    assert record.error is None
    assert record.status == "passed"
    assert record.score == record.max_score > 0


IMPORTS = "import math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F"

# ------------------------------------------------ heads from a causal attention, all right

CAUSAL_HEAD = """
    class CausalAttention(nn.Module):
        def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
            super().__init__()
            self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.dropout = nn.Dropout(dropout)
            above = torch.triu(torch.ones(context_length, context_length), diagonal=1)
            self.register_buffer("mask", above)

        def forward(self, x):
            _, length, _ = x.shape
            q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
            scores = q @ k.transpose(1, 2)
            scores.masked_fill_(self.mask.bool()[:length, :length], -torch.inf)
            weights = torch.softmax({softmax_of} / k.shape[-1] ** 0.5, dim=-1)
            return self.dropout(weights) @ v
"""
WRAPPER = """
    class MultiHeadAttentionWrapper(nn.Module):
        def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
            super().__init__()
            heads = [
                CausalAttention(d_in, d_out, context_length, dropout, qkv_bias)
                for _ in range(num_heads)
            ]
            self.heads = nn.ModuleList(heads)

        def forward(self, x):
            return torch.cat([head(x) for head in self.heads], dim=-1)
"""
DATA = """
    inputs = torch.tensor([[0.4, 0.1, 0.8], [0.5, 0.8, 0.6], [0.5, 0.8, 0.6], [0.2, 0.5, 0.3]])
    batch = torch.stack((inputs, inputs), dim=0)
    print(batch.shape)
"""


def test_heads_from_a_causal_attention_are_right(grade_notebook: GradeNotebook) -> None:
    records = grade_notebook(
        "# heads, one after the other",
        IMPORTS,
        CAUSAL_HEAD.format(softmax_of="scores"),
        WRAPPER,
        DATA,
        "mha = MultiHeadAttentionWrapper(3, 2, 4, 0.0, num_heads=2)\nmha(batch)",
    )
    assert list(records) == ["CausalAttention", "MultiHeadAttentionWrapper"]
    for record in records.values():
        assert_full_marks(record)
        assert record.notes == ()


# ------------------------------------------ one fused, one looped, one that reads a global

FUSED = """
    class CausalSelfAttentionOne(nn.Module):
        def __init__(self, config):
            super().__init__()
            assert config.n_embd % config.n_head == 0
            self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
            self.c_proj = nn.Linear(config.n_embd, config.n_embd)
            self.n_head, self.n_embd = config.n_head, config.n_embd
            lower = torch.tril(torch.ones(config.block_size, config.block_size))
            self.register_buffer("bias", lower[None, None])

        def forward(self, x):
            B, T, C = x.size()
            parts = self.c_attn(x).split(self.n_embd, dim=2)
            q, k, v = (p.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for p in parts)
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
            return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
"""
LOOPED = """
    class Head(nn.Module):
        def __init__(self, block_size, n_embd, head_size):
            super().__init__()
            self.query_W = torch.randn(head_size, n_embd)
            self.query_b = torch.randn(head_size)
            self.key_W = torch.randn(head_size, n_embd)
            self.key_b = torch.randn(head_size)
            self.value_W = torch.randn(head_size, n_embd)
            self.value_b = torch.randn(head_size)
            self.register_buffer("tril", torch.tril(torch.ones((block_size, block_size))))

        def forward(self, x):
            B, T, C = x.shape
            q = x @ self.query_W.T + self.query_b
            k = x @ self.key_W.T + self.key_b
            v = x @ self.value_W.T + self.value_b
            w = q @ k.mT / k.shape[-1] ** 0.5
            w = w.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
            return torch.softmax(w, dim=-1) @ v

    class MultiHead(nn.Module):
        def __init__(self, block_size, n_head, n_embd):
            super().__init__()
            size = n_embd // n_head
            self.heads = nn.ModuleList([Head(block_size, n_embd, size) for _ in range(n_head)])
            self.proj_W = torch.randn(n_embd, n_embd)
            self.proj_b = torch.randn(n_embd)

        def forward(self, x):
            x = torch.cat([h(x) for h in self.heads], dim=-1)
            return x @ self.proj_W.T + self.proj_b
"""
GLOBAL = """
    class CausalSelfAttentionTwo(nn.Module):
        def __init__(self, block_size, n_head, n_embd):
            super().__init__()
            self.n_head = n_head
            self.c_attn = nn.Linear(n_embd, 3 * n_embd)
            self.c_proj = nn.Linear(n_embd, n_embd)
            self.register_buffer("bias", torch.tril(torch.ones((1, 1, block_size, block_size))))

        def forward(self, x):
            B, T, C = x.size()
            q, k, v = self.c_attn(x).split(n_embd, dim=2)
            q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            w = q @ k.mT / k.shape[-1] ** 0.5
            w = w.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            y = (torch.softmax(w, dim=-1) @ v).transpose(1, 2).contiguous()
            return self.c_proj(y.view(B, T, n_embd))
"""


@pytest.mark.whole
def test_three_ways_of_writing_one_attention(grade_notebook: GradeNotebook) -> None:
    records = grade_notebook(
        IMPORTS,
        "block_size = 1024\nn_embd = 768\nn_head = 12\nx = torch.randn(4, block_size, n_embd)",
        FUSED,
        LOOPED,
        GLOBAL,
        "csa = CausalSelfAttentionTwo(block_size, n_head, n_embd)\nprint(csa(x).sum())",
        GLOBAL,
    )
    fused, looped, reads_global, head = records.values()
    assert head.exercise == "attention"  # a part of the second, and attention by itself
    assert troubles(head) == ["the_weights_are_registered_and_trainable"]
    assert fused.exercise == "causal_self_attention"
    assert_full_marks(fused)

    assert looped.exercise == "looped_causal_self_attention"
    assert troubles(looped) == ["the_weights_are_registered_and_trainable"]
    assert "`heads.0.query_W`" in first_message(looped)
    assert 0.8 * looped.max_score < looped.score < looped.max_score
    assert len([note for note in looped.notes if note.kind == "unregistered"]) == 8

    assert reads_global.exercise == "attention"  # only with that variable it is what is asked
    assert_full_marks(reads_global)
    [twice] = [note for note in reads_global.notes if note.kind == "defined_twice"]
    assert "defined in cells 5 and 7; the last one counts" in twice.message


# --------------------------------------------------- exchanged names, and much to print

EXCHANGED = """
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
            super().__init__()
            assert d_out % num_heads == 0, "d_out must be divisible by num_heads"
            self.d_out, self.num_heads, self.head_dim = d_out, num_heads, d_out // num_heads
            self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.out_proj = nn.Linear(d_out, d_out)
            self.dropout = nn.Dropout(dropout)
            above = torch.triu(torch.ones(context_length, context_length), diagonal=1)
            self.register_buffer("mask", above)

        def split(self, x):
            return x.view(*x.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)

        def forward(self, x):
            b, length, _ = x.shape
            keys = self.W_query(x)  # the names are the wrong way round
            queries = self.W_key(x)
            print("queries:", queries.shape, queries)
            keys, queries, values = map(self.split, (keys, queries, self.W_value(x)))
            scores = queries @ keys.transpose(2, 3)
            scores.masked_fill_(self.mask.bool()[:length, :length], -torch.inf)
            weights = self.dropout(torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1))
            print("weights:", weights.shape)
            context = (weights @ values).transpose(1, 2).reshape(b, length, self.d_out)
            return self.out_proj(context)
"""


@pytest.mark.whole
def test_exchanged_names_and_prints_cost_nothing_and_are_noted(
    grade_notebook: GradeNotebook,
) -> None:
    [record] = grade_notebook(IMPORTS + "\nimport numpy as np", EXCHANGED).values()
    assert_full_marks(record)
    assert kinds(record) == {"exchanged_names", "prints"}
    [prints] = [note for note in record.notes if note.kind == "prints"]
    assert "calls print 2 times" in prints.message
    assert (prints.cell, prints.line) == (2, 21)


# -------------------------------------- a walk-through whose class reads what it showed

WALK = (
    IMPORTS,
    DATA,
    """
    class SelfAttention_v1(nn.Module):
        def __init__(self, d_in: int, d_out: int):
            super().__init__()
            self.W_query = nn.Parameter(torch.rand(d_in, d_out))
            self.W_key = nn.Parameter(torch.rand(d_in, d_out))
            self.W_value = nn.Parameter(torch.rand(d_in, d_out))

        def forward(self, x):
            scores = (x @ self.W_query) @ (x @ self.W_key).T
            return torch.softmax(scores / self.W_key.shape[-1] ** 0.5, dim=-1) @ (x @ self.W_value)
    """,
    """
    class SelfAttention_v2(nn.Module):
        def __init__(self, d_in: int, d_out: int, qkv_bias=False):
            super().__init__()
            self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

        def forward(self, x):
            keys = self.W_key(x)
            scores = self.W_query(x) @ keys.T
            return torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1) @ self.W_value(x)
    """,
    """
    torch.manual_seed(42)
    sa_v2 = SelfAttention_v2(3, 2)
    attn_scores = sa_v2.W_query(inputs) @ sa_v2.W_key(inputs).T
    """,
    """
    mask = torch.triu(torch.ones(4, 4), diagonal=1)
    masked = attn_scores.masked_fill(mask.bool(), -torch.inf)
    masked
    """,
    CAUSAL_HEAD.format(softmax_of="masked"),
    "ca = CausalAttention(3, 2, 4, 0.0)\nca(batch).shape",
    WRAPPER,
)


@pytest.mark.whole
def test_class_reading_a_notebook_variable_fails_and_names_it(
    grade_notebook: GradeNotebook,
) -> None:
    v1, v2, causal, wrapper = grade_notebook(*WALK).values()
    assert_full_marks(v1)
    assert_full_marks(v2)
    for record in (causal, wrapper):
        assert record.score == 0
        assert record.status in ("crashed", "failed")
        hint = first_message(record)
        assert "`forward` of `CausalAttention` reads the notebook variable `masked`" in hint
        assert "(set in cell 6)" in hint
        assert kinds(record) == {"notebook_variable"}


# --------------------------------------------------------------- a mask, and two results

MASKED = """
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_model=512, num_heads=8):
            super().__init__()
            self.d_model, self.num_heads, self.d_k = d_model, num_heads, d_model // num_heads
            print(f"d_k is: {self.d_k}")
            self.W_q = nn.Linear(d_model, d_model)
            self.W_k = nn.Linear(d_model, d_model)
            self.W_v = nn.Linear(d_model, d_model)
            self.W_o = nn.Linear(d_model, d_model)

        def split_heads(self, x, batch_size):
            return x.view(batch_size, -1, self.num_heads, self.d_k).transpose(1, 2)

        def forward(self, x, mask=None):
            n = x.shape[0]
            Q, K, V = (self.split_heads(W(x), n) for W in (self.W_q, self.W_k, self.W_v))
            print(f"after the split: {Q.shape}")
            scores = torch.matmul(Q, K.transpose(-2, -1)) / (self.d_k**0.5)
            if mask is not None:
                scores = scores.masked_fill(mask == 0, -1e9)
            weights = F.softmax(scores, dim=-1)
            context = torch.matmul(weights, V).transpose(1, 2).contiguous()
            return self.W_o(context.view(n, -1, self.d_model)), weights
"""


def test_a_mask_and_two_results_are_right(grade_notebook: GradeNotebook) -> None:
    example = "mha = MultiHeadAttention()\noutput, weights = mha(torch.randn(2, 10, 512))\noutput"
    [record] = grade_notebook(IMPORTS + textwrap.dedent(MASKED) + example).values()
    assert record.exercise == "masked_multi_head"
    assert_full_marks(record)
    assert kinds(record) == {"prints"}
