"""A class keeps keys and values if an option says so, and takes three inputs by two names."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.conftest import GradeAll, GradeText

KEEPS = """\
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.to_q = nn.Linear(d_model, d_model)
        self.to_k = nn.Linear(d_model, d_model)
        self.to_v = nn.Linear(d_model, d_model)
        self.to_out = nn.Linear(d_model, d_model)
        self.past = None

    def forget(self):
        self.past = None

    def forward(self, x, use_cache=False):
        b, n, d = x.shape
        q, k, v = (
            layer(x).view(b, n, self.n_heads, -1).transpose(1, 2)
            for layer in (self.to_q, self.to_k, self.to_v)
        )
        if use_cache:
            if self.past is not None:
                k = torch.cat([self.past[0], k], dim=2)
                v = torch.cat([self.past[1], v], dim=2)
            self.past = k, v
        seen = k.shape[2] - n
        future = torch.ones(n, n + seen, dtype=torch.bool, device=x.device).triu(1 + seen)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(future, -torch.inf)
        return self.to_out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))
"""
ANSWER = """\
import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads:
            raise ValueError("d_out must be a multiple of num_heads")
        self.num_heads, self.dropout = num_heads, nn.Dropout(dropout)
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.past = None

    def reset_cache(self):
        self.past = None

    def forward(self, x, use_cache=False):
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer in (self.W_query, self.W_key, self.W_value)
        )
        if use_cache:
            if self.past is not None:
                k, v = (torch.cat([old, new], 2) for old, new in zip(self.past, (k, v)))
            self.past = k, v
        seen = k.shape[2] - q.shape[2]
        future = torch.ones_like(q @ k.mT, dtype=torch.bool).triu(1 + seen)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(future, -torch.inf)
        return self.out_proj((self.dropout(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2))
"""
CROSS = """\
import torch
from torch import nn


class Cross(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)

    def forward(self, x, key, value):
        q, k, v = (
            t.view(*t.shape[:2], self.heads, -1).transpose(1, 2)
            for t in (self.q_proj(x), self.k_proj(key), self.v_proj(value))
        )
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return (weights @ v).transpose(1, 2).reshape(x.shape)
"""


def test_a_cache_that_an_option_keeps_is_judged_and_said(grade_text: "GradeText") -> None:
    record = grade_text(KEEPS)
    assert record.status == "passed", [p.name for p in record.properties if p.status != "passed"]
    assert "cache" in {prop.group for prop in record.properties}
    said = "with `use_cache=True` a call continues the earlier ones, until `forget()` is called"
    assert said in [note.message for note in record.notes]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (".triu(1 + seen)", ".triu(1)"),
        ("self.past = k, v", "self.past = v, k"),
        ("torch.cat([self.past[1], v], dim=2)", "torch.cat([v, self.past[1]], dim=2)"),
    ],
)
def test_a_mistake_of_a_kept_cache_fails(grade_text: "GradeText", right: str, wrong: str) -> None:
    record = grade_text(KEEPS.replace(right, wrong))
    failed = {p.group for p in record.properties if p.status not in ("passed", "not_tried")}
    assert "cache" in failed


def test_what_an_answer_takes_beyond_its_exercise_is_judged_too(grade_all: "GradeAll") -> None:
    [right] = grade_all(ANSWER)
    assert (right.exercise, right.status) == ("multi_head_attention", "passed")
    answer, beyond = grade_all(ANSWER.replace(".triu(1 + seen)", ".triu(1)"))
    assert (answer.exercise, answer.status) == ("multi_head_attention", "passed")
    assert (beyond.exercise, beyond.status) == ("attention", "failed")
    said = "it answers `multi_head_attention`, which does not ask for all that its calls take"
    assert said in [note.message for note in beyond.notes]


NAMELESS = (
    KEEPS.replace("use_cache=False", "kv=None")
    .replace("self.past", "kv")
    .replace(
        "        if use_cache:\n            if kv is not None:\n"
        "                k = torch.cat([kv[0], k], dim=2)\n"
        "                v = torch.cat([kv[1], v], dim=2)\n            kv = k, v\n",
        "        if kv is not None:\n"
        "            k, v = (torch.cat(each, 2) for each in zip(kv, (k, v)))\n",
    )
    .replace("reshape(b, n, d))", "reshape(b, n, d)), (k, v)")
    .replace("        kv = None\n\n    def forget(self):\n        kv = None\n", "")
)


def test_a_cache_may_be_an_argument_of_any_name(grade_text: "GradeText") -> None:
    assert "forget" not in NAMELESS and "zip(kv" in NAMELESS
    right, wrong = (grade_text(each) for each in (NAMELESS, NAMELESS.replace("1 + seen", "1")))
    assert (right.status, wrong.status) == ("passed", "failed")
    assert "cache" in {prop.group for prop in right.properties}
    assert "its `kv` takes what an earlier call returned" in str(right.notes)


KEPT_CONTEXT = """\
import torch
from torch import nn


class Cross(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.kept = None

    def forward(self, x, context):
        if self.kept is None:
            self.kept = self.kv(context).chunk(2, -1)
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(x), *self.kept)
        )
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.cross, self.norm = Cross(dim, heads), nn.LayerNorm(dim)

    def forward(self, x, context):
        return self.norm(x + self.cross(x, context))


def translate(layer, x, context):
    layer.cross.kept = None
    return layer(x, context)
"""


def test_what_the_users_of_a_class_set_to_none_is_so_before_every_call(
    grade_all: "GradeAll",
) -> None:
    attention, layer, *others = grade_all(KEPT_CONTEXT)
    assert (attention.name, layer.name) == ("Cross", "Layer")
    assert {each.status for each in (attention, layer, *others)} == {"passed"}
    told = [note.message for note in attention.notes]
    assert "its `kept` is reset to None before every call, as the calling code does" in told
    [kept, *_] = grade_all(KEPT_CONTEXT.replace("    layer.cross.kept = None\n", ""))
    assert kept.status != "passed"


def test_a_class_whose_caller_sets_up_its_cache_is_not_accused(grade_text: "GradeText") -> None:
    """Nobody knows what such a method is given, and a call without it raises."""
    needing = KEEPS.replace(
        "        self.past = None\n\n    def forget(self)", "\n    def set_up(self, n)"
    )
    record = grade_text(
        needing.replace("        if use_cache:", "        if self.past is None or True:")
    )
    assert record.status == "not_tried"
    assert "calls need `past`, which another method sets" in str(record.error)


def test_what_looks_at_keys_is_the_query_by_any_name(grade_text: "GradeText") -> None:
    assert grade_text(CROSS).status == "passed"
    exchanged = CROSS.replace(
        "self.k_proj(key), self.v_proj(value)", "self.v_proj(value), self.k_proj(key)"
    )
    assert grade_text(exchanged).status == "failed"


@pytest.mark.parametrize(
    ("cap", "status"),
    [("cap * torch.tanh({0} / cap)", "passed"), ("torch.tanh({0} / cap)", "failed")],
)
def test_the_limit_of_scores_is_given_by_its_name(
    grade_text: "GradeText", cap: str, status: str
) -> None:
    """Once it was False, and every score was divided by zero."""
    scores = "(q @ k.mT / q.shape[-1] ** 0.5)"
    source = KEEPS.replace(
        "n_heads):\n", "n_heads, logit_softcap):\n        self.cap = logit_softcap\n"
    )
    source = source.replace(
        "self.cap = logit_softcap\n        super().__init__()\n",
        "super().__init__()\n        self.cap = logit_softcap\n",
    )
    source = source.replace(
        f"scores = {scores}", f"cap = self.cap\n        scores = ({cap.format(scores)})"
    )
    assert grade_text(source).status == status
