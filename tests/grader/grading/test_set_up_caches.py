"""A class whose cache a method sets up is judged with this cache, and wrong uses of it fail."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headcheck.grader.report.records import SubmissionRecord
    from tests.grader.conftest import GradeText

STATIC = """\
import torch
from torch import nn
from torch.nn import functional as F


class KVCache(nn.Module):
    def __init__(self, batch, length, heads, head_dim, dtype):
        super().__init__()
        shape = batch, heads, length, head_dim
        self.register_buffer("k", torch.zeros(shape, dtype=dtype))
        self.register_buffer("v", torch.zeros(shape, dtype=dtype))

    def update(self, input_pos, k, v):
        self.k[:, :, input_pos] = k
        self.v[:, :, input_pos] = v
        return self.k, self.v


class Attention(nn.Module):
    def __init__(self, dim, n_head, max_len):
        super().__init__()
        self.n_head = n_head
        self.wqkv = nn.Linear(dim, 3 * dim)
        self.wo = nn.Linear(dim, dim)
        self.kv_cache = None
        causal = torch.ones(max_len, max_len, dtype=torch.bool).tril()
        self.register_buffer("causal", causal, persistent=False)

    def setup_caches(self, max_batch_size, max_seq_length):
        weight = self.wo.weight
        head_dim = weight.shape[0] // self.n_head
        made = KVCache(max_batch_size, max_seq_length, self.n_head, head_dim, weight.dtype)
        self.kv_cache = made.to(weight.device)

    def forward(self, x, input_pos):
        b, n, d = x.shape
        split = (b, n, self.n_head, d // self.n_head)
        q, k, v = (t.view(split).transpose(1, 2) for t in self.wqkv(x).split(d, dim=-1))
        mask = self.causal[:n, :n]
        if self.kv_cache is not None:
            k, v = self.kv_cache.update(input_pos, k, v)
            mask = self.causal[input_pos, : k.shape[2]]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).reshape(b, n, d))
"""
GROWING = """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.keys = None

    def init_kv_cache(self, batch, dtype=torch.float32, device=None):
        shape = batch, self.heads, 0, self.q.weight.shape[0] // self.heads
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (
            layer(x).view(b, n, self.heads, -1).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        if self.keys is not None:
            self.keys = k = torch.cat([self.keys, k], dim=2)
            self.values = v = torch.cat([self.values, v], dim=2)
        before = k.shape[2] - n
        future = torch.ones(n, n + before, dtype=torch.bool, device=x.device).triu(1 + before)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(future, -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)
"""
STARTING = """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.register_buffer("cache_k", None)
        self.cache_v = None

    def reset_cache(self):
        self.cache_k = self.cache_v = None

    def build_cache(self, batch_size, max_tokens):
        dim = self.q.weight.shape[0]
        self.register_buffer("cache_k", self.q.weight.new_zeros(batch_size, max_tokens, dim))
        self.cache_v = self.q.weight.new_zeros(batch_size, max_tokens, dim)

    def forward(self, x, start_pos=0):
        b, n, d = x.shape
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.cache_k is not None:
            self.cache_k[:, start_pos : start_pos + n] = k
            self.cache_v[:, start_pos : start_pos + n] = v
            k, v = self.cache_k[:, : start_pos + n], self.cache_v[:, : start_pos + n]
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        rows = torch.arange(n, device=x.device)[:, None] + start_pos
        future = torch.arange(start_pos + n, device=x.device) > rows
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(future, -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)
"""
NEEDED = GROWING.replace("if self.keys is not None:", "if True:").replace(
    "        self.keys = None\n", ""
)
RIGHT = {
    "static": (STATIC, "setup_caches(max_batch_size, max_seq_length)"),
    "growing": (GROWING, "init_kv_cache(batch, dtype, device)"),
    "needed by every call": (NEEDED, "init_kv_cache(batch, dtype, device)"),
    "starting": (STARTING, "build_cache(batch_size, max_tokens)"),
}
FAILS = (
    "With a cache, tokens that come one by one give the output of the whole sequence.",
    "With a cache, parts of any length give the output of the whole sequence.",
    "Sequences that are continued in turn do not see each other; a later one sees none of them.",
)


def list_failed(record: "SubmissionRecord") -> dict[str, str]:
    """Return the claims that fail, by the group of their property."""
    judged = (p for p in record.properties if p.status not in ("passed", "not_tried"))
    return {prop.group: prop.claim for prop in judged}


@pytest.mark.sampled("kind", RIGHT, list(RIGHT)[::2])
def test_a_right_cache_that_a_method_sets_up_passes(grade_text: "GradeText", kind: str) -> None:
    source, method = RIGHT[kind]
    record = grade_text(source)
    assert record.status == "passed", list_failed(record)
    assert "cache" in {prop.group for prop in record.properties}
    said = f"calls of it continue the earlier ones, from `{method}` on"
    assert said in [note.message for note in record.notes]


WRONG = {
    "no mask for one token": (
        STATIC,
        "self.causal[input_pos, : k.shape[2]]",
        "self.causal[input_pos, : k.shape[2]] if n > 1 else None",
        FAILS[0],
    ),
    "rows of the mask from the first on": (
        STATIC,
        "self.causal[input_pos, : k.shape[2]]",
        "self.causal[:n, : k.shape[2]]",
        FAILS[0],
    ),
    "keys at the wrong place": (
        STATIC,
        "self.k[:, :, input_pos] = k",
        "self.k[:, :, input_pos - input_pos[0]] = k",
        FAILS[0],
    ),
    "the cache of the earlier sequence": (
        GROWING,
        "        shape = batch",
        "        if self.keys is not None:\n            return\n        shape = batch",
        FAILS[2],
    ),
    "values before keys": (
        GROWING,
        "self.values = v = torch.cat([self.values, v]",
        "self.values = v = torch.cat([v, self.values]",
        FAILS[0],
    ),
    "the mask does not know what came before": (
        STARTING,
        "[:, None] + start_pos",
        "[:, None]",
        FAILS[0],
    ),
}


@pytest.mark.sampled("kind", WRONG, list(WRONG)[::2])
def test_a_wrong_cache_that_a_method_sets_up_fails(grade_text: "GradeText", kind: str) -> None:
    source, right, wrong, claim = WRONG[kind]
    assert source.count(right) == 1
    record = grade_text(source.replace(right, wrong))
    assert list_failed(record).get("cache") == claim, (record.error, list_failed(record))


def test_a_cache_that_every_call_needs_is_set_up_before_each(grade_text: "GradeText") -> None:
    assert grade_text(NEEDED).status == "passed"
    kept = "        if hasattr(self, 'keys'):\n            return\n        shape = batch"
    assert grade_text(NEEDED.replace("        shape = batch", kept)).status == "failed"


def test_a_method_that_the_class_calls_itself_or_that_takes_more_is_not_called(
    grade_text: "GradeText",
) -> None:
    """The first sets up what every call needs; of the second, nobody knows what it is given."""
    itself = STARTING.replace(
        "        b, n, d = x.shape\n", "        b, n, d = x.shape\n        self.build_cache(b, n)\n"
    )
    more = STARTING.replace("batch_size, max_tokens)", "batch_size, max_tokens, blorp)", 1)
    for source in (itself, more):
        record = grade_text(source)
        assert "from `build_cache" not in " ".join(note.message for note in record.notes)
