"""The line at which a mistake stands: the one that is proved, or none."""

import pytest

from headcheck.grader.grading.diagnosis import pin_line
from headcheck.grader.reading.code_patterns import CodePattern
from headcheck.grader.report.records import DiagnosisRecord, LineRecord, PlaceRecord
from headcheck.grader.report.render.view import make_view
from tests.grader.conftest import GradeNotebook

CAUSAL = """
    import torch
    from torch import nn

    class CausalAttention(nn.Module):
        def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
            super().__init__()
            self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.drop = nn.Dropout(dropout)
            ahead = torch.ones(context_length, context_length).triu(1).bool()
            self.register_buffer("ahead", ahead)

        def forward(self, x):
            query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)
            count = x.size(1)
            logits = query @ key.mT
            logits = logits / key.size(-1) ** 0.5
            logits = logits.masked_fill(self.ahead[:count, :count], float("-inf"))
            shares = logits.softmax(-1)
            return self.drop(shares) @ value
"""
ONLINE = """
    import torch

    def online_attention(query, key, value, block_size):
        scale = query.shape[-1] ** -0.5
        peak = torch.full_like(query[..., :1], float("-inf"))
        mass, out = torch.zeros_like(peak), torch.zeros_like(query)
        for k, v in zip(key.split(block_size, 2), value.split(block_size, 2)):
            logits = query @ k.mT * scale
            new = torch.maximum(peak, logits.amax(-1, keepdim=True))
            shrink, e = (peak - new).exp(), (logits - new).exp()
            mass = mass * shrink + e.sum(-1, keepdim=True)
            out = out * shrink + e @ v
            peak = new
        return out / mass, (peak + mass.log()).squeeze(-1)
"""
MULTI = """
    import torch
    from torch import nn

    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
            super().__init__()
            if d_out % num_heads:
                raise ValueError("the heads do not divide the width")
            self.heads = num_heads
            self.width = d_out // num_heads
            self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.out_proj = nn.Linear(d_out, d_out)
            self.drop = nn.Dropout(dropout)

        def cut(self, x):
            b, n, _ = x.shape
            h, w = self.heads, self.width
            return x.view(b, n, h, w).transpose(1, 2)

        def forward(self, x):
            q, k, v = self.cut(self.W_query(x)), self.cut(self.W_key(x)), self.cut(self.W_value(x))
            n = x.shape[1]
            past = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
            scores = q @ k.mT / self.width**0.5
            scores = scores.masked_fill(~past, float("-inf"))
            weights = self.drop(scores.softmax(-1))
            return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
"""


def change(source: str, *edits: tuple[str, str]) -> str:
    for before, after in edits:
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    return source


HIDE = '            logits = logits.masked_fill(self.ahead[:count, :count], float("-inf"))\n'
SOFTMAX = "            shares = logits.softmax(-1)\n"
LATE = "            shares = shares.masked_fill(self.ahead[:count, :count], 0.0)\n"
KEY = "self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)"
VALUE = "self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)"
PROJECT = "query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)"
MADE = "self.W_{} = nn.Linear(d_in, d_out{})"
IGNORED = [
    (MADE.format(name, ", bias=qkv_bias"), MADE.format(name, ""))
    for name in ("query", "key", "value")
]
WRONG = {
    "a mask after the softmax": (
        change(CAUSAL, (HIDE, ""), (SOFTMAX, SOFTMAX + LATE)),
        "masked_after_softmax",
        (LATE, (LATE,)),
    ),
    "a mask after the softmax, renormalised": (
        change(
            CAUSAL,
            (HIDE, ""),
            (SOFTMAX, f"{SOFTMAX}{LATE}            shares = shares / shares.sum(-1, True)\n"),
        ),
        "renormalised_after_softmax",
        ("shares.sum(-1, True)", ()),  # right where no weight overflows
    ),
    "a wrong fill beside a right mask": (
        change(CAUSAL, ('float("-inf")', "0.0")),
        "filled_with_zero",
        ("logits.masked_fill", ("logits.masked_fill",)),
    ),
    "a wrong mask, filled in rightly": (
        change(MULTI, (".tril()", ".tril(1)")),
        "next_token_visible",
        (".tril(1)", (".tril(1)", "masked_fill")),  # which inverts it as well
    ),
    "heads that are split by a view alone": (
        change(MULTI, ("x.view(b, n, h, w).transpose(1, 2)", "x.view(b, h, n, w)")),
        "split_without_transpose",
        ("x.view", ("x.view",)),
    ),
    "one layer by three names": (
        change(CAUSAL, (KEY, "self.W_key = self.W_query"), (VALUE, "self.W_value = self.W_query")),
        "one_projection_for_all",
        (None, ("self.W_key =", "self.W_value =")),
    ),
    "one layer, given three names at once": (
        change(
            CAUSAL,
            (f"            {KEY}\n            {VALUE}\n", ""),
            ("self.W_query =", "self.W_query = self.W_key = self.W_value ="),
        ),
        "one_projection_for_all",
        ("self.W_query =", ("self.W_query =",)),
    ),
    "one layer is called": (
        change(CAUSAL, (PROJECT, "query = key = value = self.W_query(x)")),
        "one_projection_for_all",
        ("query = key", ("query = key",)),
    ),
    "an average that is not corrected": (
        change(ONLINE, ("out = out * shrink", "out = out")),
        "earlier_average_not_rescaled",
        ("out = out +", ()),
    ),
    "a sum that is not corrected": (
        change(ONLINE, ("mass = mass * shrink + e", "mass += e")),
        "earlier_sum_not_rescaled",
        ("mass +=", ()),
    ),
    "an option that is ignored": (
        change(CAUSAL, *IGNORED),
        "bias_unasked",
        ("def __init__", ()),
    ),
    "a rate that is ignored": (
        change(
            CAUSAL,
            ("            self.drop = nn.Dropout(dropout)\n", ""),
            ("self.drop(shares)", "shares"),
        ),
        "dropout_never",
        ("def __init__", ()),
    ),
}


def find_line(source: str, text: str) -> int:
    lines = source.strip("\n").split("\n")
    return next(n for n, line in enumerate(lines, 1) if text.strip("\n") in line)


@pytest.mark.parametrize("name", WRONG)
def test_the_line_of_a_mistake(name: str, grade_notebook: GradeNotebook) -> None:
    source, mistake, (pinned, told) = WRONG[name]
    [record] = grade_notebook(source).values()
    [found] = record.diagnosis
    assert found.name == mistake
    assert found.line == (None if pinned is None else find_line(source, pinned))
    if told:
        assert record.place is not None
        assert [each.line for each in record.place.lines] == [find_line(source, t) for t in told]


def test_a_note_that_explains_a_mistake_stands_with_it(grade_notebook: GradeNotebook) -> None:
    source, _, _ = WRONG["an option that is ignored"]
    [record] = grade_notebook(source).values()
    shown = make_view(record)
    why = "`__init__` of `CausalAttention` never uses its argument `qkv_bias`."
    assert shown.diagnosis is not None and shown.diagnosis.reasons == (why,)
    assert not any("qkv_bias" in note.message for note in shown.notes if "never" in note.message)


FOUND = DiagnosisRecord("no_scale", "It is not scaled.", None, 5, 1, 1)


@pytest.mark.parametrize(
    ("lines", "kind", "pinned"),
    [
        ((7,), "scores", 7),  # what is proved counts more than what code looks like
        ((4, 5, 6), "scores", 5),
        ((7, 8), "scores", None),
        ((7, 8), "unused", 5),
        ((7,), "unused", 5),
    ],
)
def test_a_line_is_pinned_if_it_is_proved(
    lines: tuple[int, ...], kind: str, pinned: int | None
) -> None:
    place = PlaceRecord("Look.", tuple(LineRecord(None, line) for line in lines))
    assert pin_line(FOUND, place, [CodePattern(kind, "x", None, 5)]).line == pinned
