"""What moves with a module and what stays behind: styles of one causal attention, right and wrong.

Right is what a GPU takes: numbers without an axis, indices made in the call, copies. Wrong is what
it refuses, and what is kept in the module and does not move along.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import indent
from typing import Any

import pytest

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.check import find_first_failure
from headcheck.properties.families.device import (
    it_moves_to_another_device,
    it_moves_to_another_dtype,
)
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict
from headcheck.properties.violations.violation import Status
from tests.submissions import execute

CAUSAL = BY_SLUG["causal_attention"]
SOURCE = """
import copy, math, torch
import torch.nn.functional as F
from torch import nn

{before}

class CausalAttention(nn.Module):
    {kept}

    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.d_out = d_out
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
{built}

    def forward(self, x):
        n, inf = x.shape[1], torch.inf
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = q @ k.transpose(1, 2) / math.sqrt(self.d_out)
{masked}
        return self.dropout(torch.softmax(scores, dim=-1)) @ v
"""
UPPER = "torch.triu(torch.ones(context_length, context_length), diagonal=1)"
UPPER_INF = "torch.triu(torch.full((context_length, context_length), -torch.inf), diagonal=1)"
ATTRIBUTE = f"self.mask = {UPPER}.bool()"
THERE = "hidden = torch.ones(n, n, device=x.device).triu(1).bool()"
HIDE = "scores.masked_fill_(x.new_ones(n, n).triu(1) > 0, -inf)"
BUFFER = f'self.register_buffer("mask", {UPPER}.bool())'


@dataclass(frozen=True)
class Style:
    """How a causal attention hides the future."""

    masked: str
    built: str = "pass"
    before: str = ""
    kept: str = "pass"
    says: tuple[str, ...] = field(default=())

    @property
    def namespace(self) -> Mapping[str, Any]:
        built, masked = (indent(lines, " " * 8) for lines in (self.built, self.masked))
        about = {"before": self.before, "kept": self.kept, "built": built, "masked": masked}
        return execute(SOURCE.format(**about))


RIGHT = {
    "a buffer": Style("scores = scores.masked_fill(self.mask[:n, :n], -inf)", BUFFER),
    "a buffer, in place": Style("scores.masked_fill_(self.mask[:n, :n], -inf)", BUFFER),
    "a buffer that is not saved": Style(
        "scores.masked_fill_(self.mask[:n, :n], -inf)",
        f'self.register_buffer("mask", {UPPER}.bool(), persistent=False)',
    ),
    "a buffer as an index": Style("scores[:, self.mask[:n, :n]] = -inf", BUFFER),
    "an additive buffer": Style(
        "scores += self.bias[:n, :n]", f'self.register_buffer("bias", {UPPER_INF})'
    ),
    "a buffer of the parent": Style(
        "scores.masked_fill_(self.corner.mask[:n, :n], -inf)",
        f'self.corner = nn.Module()\nself.corner.register_buffer("mask", {UPPER}.bool())',
    ),
    "made with device=": Style(f"{THERE}\nscores = scores.masked_fill(hidden, -inf)"),
    "made under torch.device": Style(
        "with torch.device(x.device):\n    hidden = torch.ones(n, n).triu(1).bool()\n"
        "scores = scores.masked_fill(hidden, -inf)"
    ),
    "new_ones": Style("scores.masked_fill_(x.new_ones(n, n).triu(1).bool(), -inf)"),
    "full_like": Style("scores += torch.full_like(scores, -inf).triu(1)"),
    "positions compared": Style(
        "i = torch.arange(n, device=x.device)\n"
        "scores = scores.masked_fill(i[None] > i[:, None], -inf)"
    ),
    "the number as a tensor": Style(
        f"{THERE}\nscores = scores.masked_fill(hidden, torch.tensor(-inf, device=x.device))"
    ),
    "the number as a tensor of the CPU": Style(
        f"{THERE}\nscores = scores.masked_fill(hidden, torch.tensor(-inf))"
    ),
    "a scale of the CPU without an axis": Style(
        "scores = torch.where(torch.ones_like(scores).tril() > 0, scores, torch.tensor(-inf))\n"
        "scores = scores * self.one",
        "self.one = torch.tensor(1.0)",
    ),
    "an attribute, moved in the call": Style(
        "scores.masked_fill_(self.mask.to(x.device)[:n, :n], -inf)", ATTRIBUTE
    ),
    "an attribute, moved in the call to what x is": Style(
        "scores = scores + self.bias[:n, :n].to(x)", f"self.bias = {UPPER_INF}"
    ),
    "an attribute that is replaced by a moved one": Style(
        "self.mask = self.mask.to(x.device)\nscores.masked_fill_(self.mask[:n, :n], -inf)",
        ATTRIBUTE,
    ),
    "an attribute, moved if it must be": Style(
        "mask = self.mask.cuda() if x.is_cuda else self.mask\n"
        "scores.masked_fill_(mask[:n, :n], -inf)",
        ATTRIBUTE,
    ),
    "an attribute, moved where it is refused": Style(
        "try:\n    scores = scores.masked_fill(self.mask[:n, :n], -inf)\n"
        "except RuntimeError:\n"
        "    scores = scores.masked_fill(self.mask[:n, :n].to(x.device), -inf)",
        ATTRIBUTE,
    ),
    "moved by _apply": Style(
        "scores.masked_fill_(self.masks[0][:n, :n], -inf)",
        f"self.masks = [{UPPER}.bool()]",
        kept="def _apply(self, fn, recurse=True):\n"
        "        self.masks = [fn(mask) for mask in self.masks]\n"
        "        return super()._apply(fn, recurse)",
    ),
    "indices of the CPU": Style(
        "for i in range(n):\n    scores[:, i, torch.arange(i + 1, n)] = -inf"
    ),
    "copied into a part": Style(
        "for i in range(n):\n    scores[:, i, i + 1:] = torch.full((n - i - 1,), -inf)"
    ),
    "sizes computed on the CPU": Style(
        "sizes = torch.tensor(scores.shape)\nlast = int((sizes * torch.ones(3)).max())\n"
        "scores.masked_fill_(x.new_ones(last, last)[:n, :n].triu(1).bool(), -inf)"
    ),
    "printed on the way": Style(
        f"print(scores.mean().item(), scores.tolist(), scores, bool(scores.sum() > 0))\n{HIDE}"
    ),
    "a branch on numbers": Style(f"if scores.abs().max() >= 0:\n    {HIDE}"),
    "through numpy and back": Style(
        "seen = torch.from_numpy(scores.detach().cpu().numpy()).tril().to(x.device)\n"
        "scores = seen.masked_fill(x.new_ones(n, n).triu(1).bool(), -inf)"
    ),
    "kept from an earlier call, and made anew": Style(
        "if self.mask is None or self.mask.device != x.device:\n"
        "    self.mask = torch.ones(64, 64, device=x.device).triu(1).bool()\n"
        "scores.masked_fill_(self.mask[:n, :n], -inf)",
        "self.mask = None",
    ),
    "the answer of a fused kernel": Style(
        "return F.scaled_dot_product_attention(q, k, v, is_causal=True)"
    ),
    "a view of a parameter is kept for later": Style(HIDE, "self.first = self.W_query.weight[:1]"),
    "numpy is forced": Style(f"scores.detach().numpy(force=True).sum()\n{HIDE}"),
    "views changed in place": Style(
        "scores.unsqueeze_(1).transpose_(2, 3)\nscores.transpose_(3, 2).squeeze_(1)\n"
        "scores[:, 0].add_(0)\nscores.masked_fill_(x.new_ones(n, n).triu(1) > 0, -inf)"
    ),
    "written into what was made for it": Style(
        "scores = torch.add(scores, 0, out=torch.empty_like(scores))\n"
        "top, _ = torch.max(scores, -1, keepdim=True)\n"
        "scores = (scores - top).masked_fill(x.new_ones(n, n).triu(1) > 0, -inf)"
    ),
    "vmap": Style(
        f"{THERE}\nscores = torch.vmap(lambda each: each.masked_fill(hidden, -inf))(scores)"
    ),
    "parameters under a second name": Style(
        "scores.masked_fill_(self.mask[:n, :n], -inf)\nv = F.linear(x, *self.all[2:])",
        f"{BUFFER}\nself.all = [*self.W_query.parameters(), *self.W_key.parameters()][:2]\n"
        "self.all = [None, None, *self.W_value.parameters()]\n"
        "self.all += [None] * (4 - len(self.all))",
    ),
    "made on the meta device to see its shape": Style(
        "shape = torch.empty(n, n, device='meta').shape\n"
        "scores.masked_fill_(x.new_ones(shape).triu(1).bool(), -inf)"
    ),
}
KEPT = ("`mask`, of shape (", "stayed on the cpu", 'self.register_buffer("mask", ...)')
MADE = ("a tensor of shape (", "stayed on the cpu", "made it there. Make it with device=x.device")
WRONG = {
    "an attribute": Style(
        "scores = scores.masked_fill(self.mask[:n, :n], -inf)", ATTRIBUTE, says=KEPT
    ),
    "an attribute, in place": Style(
        "scores.masked_fill_(self.mask[:n, :n], -inf)", ATTRIBUTE, says=KEPT
    ),
    "an attribute as an index": Style("scores[:, self.mask[:n, :n]] = -inf", ATTRIBUTE, says=KEPT),
    "an attribute as an index that reads": Style(
        "scores = scores.masked_fill(scores.new_ones(n, n).triu(1).bool(), -inf)\n"
        "scores = scores[:, self.order[:n]]",
        "self.order = torch.arange(context_length)",
        says=("`order`, of shape (", "stayed on the cpu"),
    ),
    "an attribute, added in place": Style(
        "scores += self.bias[:n, :n]",
        f"self.bias = {UPPER_INF}",
        says=("`bias`, of shape (", 'self.register_buffer("bias", ...)'),
    ),
    "what is computed from an attribute": Style(
        "hidden = 1 - (self.mask[:n, :n].float() * 2 - 1).relu()\n"
        "scores.masked_fill_(hidden == 0, -inf)",
        ATTRIBUTE,
        says=KEPT,
    ),
    "an attribute that where takes": Style(
        "scores = torch.where(self.mask[:n, :n], -inf, scores)", ATTRIBUTE, says=KEPT
    ),
    "an attribute that multiplies": Style(
        "scores = scores * (1 - self.mask[:n, :n])\n"
        "scores = scores.masked_fill(x.new_ones(n, n).triu(1).bool(), -inf)",
        f"self.mask = {UPPER}",
        says=KEPT,
    ),
    "a list of masks": Style(
        "scores.masked_fill_(self.masks[n], -inf)",
        "self.masks = [torch.ones(n, n).triu(1).bool() for n in range(context_length + 1)]",
        says=("`masks.", "stayed on the cpu"),
    ),
    "a mask in an object": Style(
        "scores.masked_fill_(self.settings.mask[:n, :n], -inf)",
        f"self.settings = Settings()\nself.settings.mask = {UPPER}.bool()",
        before="class Settings: pass",
        says=("`settings.mask`, of shape (", "stayed on the cpu"),
    ),
    "a view of a parameter": Style(
        f"{HIDE}\nv = x @ self.values",
        "self.values = self.W_value.weight.T",
        says=("`values`, of shape (", "stayed on the cpu"),
    ),
    "a module in a list": Style(
        f"{HIDE}\nv = self.more[0](v)",
        "self.more = [nn.Linear(d_out, d_out)]",
        says=("`more.0.", "of shape (", "nothing registers it", "nn.ModuleList"),
    ),
    "a mask of the class": Style(
        "scores.masked_fill_(self.hidden[:n, :n], -inf)",
        kept="hidden = torch.ones(64, 64).triu(1).bool()",
        says=("`CausalAttention.hidden`, of shape (", "stayed on the cpu"),
    ),
    "a global mask": Style(
        "scores.masked_fill_(HIDDEN[:n, :n], -inf)",
        before="HIDDEN = torch.ones(64, 64).triu(1).bool()",
        says=("the global `HIDDEN`, of shape (", "Make it in the call"),
    ),
    "made without device=": Style(
        "scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -inf)", says=MADE
    ),
    "made without device=, in place": Style(
        "scores.masked_fill_(torch.ones(n, n).triu(1).bool(), -inf)", says=MADE
    ),
    "added in place, made without device=": Style(
        "scores += torch.full((n, n), -inf).triu(1)", says=MADE
    ),
    "kept from an earlier call": Style(
        "if self.mask is None:\n"
        "    self.mask = torch.ones(64, 64, device=x.device).triu(1).bool()\n"
        "scores.masked_fill_(self.mask[:n, :n], -inf)",
        "self.mask = None",
        says=KEPT,
    ),
    "indices of the CPU where an index is no index": Style(
        f"{HIDE}\nscores = scores.index_select(1, torch.arange(n))", says=MADE
    ),
    "joined from both": Style(
        f"{HIDE}\nv = torch.cat([v, torch.zeros(x.shape[0], 1, self.d_out)], 1)[:, :n]", says=MADE
    ),
    "numbers of Python": Style(
        "hidden = torch.tensor([[j > i for j in range(n)] for i in range(n)])\n"
        "scores.masked_fill_(hidden, -inf)",
        says=MADE,
    ),
    "numbers of numpy": Style(
        "scores = scores + torch.from_numpy(numpy.triu(numpy.full((n, n), -1e9, 'float32'), 1))",
        before="import numpy",
        says=MADE,
    ),
    "a sum begun on the CPU": Style(
        f"{HIDE}\ntotal = torch.tensor(0.0)\ntotal += scores.exp().sum()",
        says=("a tensor of shape ()", "stayed on the cpu"),
    ),
    "a mask that the fused kernel gets": Style(
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(n, n).tril().bool())",
        says=MADE,
    ),
    "brought to the CPU": Style(
        f"{HIDE}\nv = v.cpu()",
        says=("a tensor of shape (", "brought it there. Bring it back with .to(x.device)"),
    ),
    "numpy": Style(
        f"{HIDE}\nscores = torch.from_numpy(scores.detach().numpy())",
        says=("TypeError: can't convert a tensor of another device to numpy",),
    ),
    "the answer is left on the CPU": Style(
        f"{HIDE}\nreturn (torch.softmax(scores, -1) @ v).cpu()",
        says=("expected  the device of the module", "got       cpu"),
    ),
    "something else where it is refused": Style(
        "try:\n    scores.masked_fill_(torch.ones(n, n).triu(1).bool(), -inf)\n"
        "except RuntimeError:\n    pass",
        says=("output[",),
    ),
}


KEPT_AS_FLOAT = Style(
    "scores = scores + self.bias[:n, :n].to(x.device)",
    f"self.bias = {UPPER_INF}",
    says=("`bias`, of shape (", "is still float32", 'self.register_buffer("bias", ...)'),
)
STAYS_FLOAT32 = {
    "an attribute that promotes": KEPT_AS_FLOAT,
    "what is computed from one": Style(
        "scores = scores - (self.bias[:n, :n] * -2).clamp(max=1e9)",
        f"self.bias = {UPPER_INF}",
        says=KEPT_AS_FLOAT.says,
    ),
    "a global that promotes": Style(
        "scores = scores + BIAS[:n, :n]",
        before="BIAS = torch.full((64, 64), -torch.inf).triu(1)",
        says=("the global `BIAS`, of shape (", "is still float32"),
    ),
    "a matrix that is refused": Style(
        "scores = (scores @ self.same[:n, :n]).masked_fill(x.new_ones(n, n).triu(1) > 0, -inf)",
        "self.same = torch.eye(context_length)",
        says=("RuntimeError", "same dtype", "`same`, of shape (", "is still float32: "),
    ),
}
TAKES_ANY_DTYPE = {
    "written into the scores": Style(
        "scores += self.bias[:n, :n].to(x.device)", f"self.bias = {UPPER_INF}"
    ),
    "compared with zero": Style(
        "scores = scores.masked_fill(self.mask[:n, :n].to(x.device) > 0, -inf)",
        f"self.mask = {UPPER}",
    ),
    "converted in the call": Style(
        "scores = scores + self.bias[:n, :n].to(x.device, x.dtype)", f"self.bias = {UPPER_INF}"
    ),
    "a number without an axis": Style(
        "scores = (scores * self.one).masked_fill(x.new_ones(n, n).triu(1) > 0, -inf)",
        "self.one = torch.tensor(1.0)",
    ),
    "made in the call": Style(
        "scores = scores + torch.full((n, n), -inf, device=x.device).triu(1)"
    ),
}


def verdict(claim: Property, namespace: Mapping[str, Any], exercise: Exercise = CAUSAL) -> Verdict:
    harness = Harness(make_subject(namespace), exercise.contract)
    return find_first_failure(claim, harness, exercise.plan_cases()[claim])


@pytest.mark.parametrize("style", RIGHT)
def test_modules_a_gpu_accepts_move(style: str) -> None:
    for claim in (it_moves_to_another_device, it_moves_to_another_dtype):
        found = verdict(claim, RIGHT[style].namespace)
        assert (found.status, found.message) == (Status.PASSED, "")


@pytest.mark.parametrize("style", WRONG)
def test_unmoved_tensor_is_named_with_its_remedy(style: str) -> None:
    wrong = WRONG[style]
    found = verdict(it_moves_to_another_device, wrong.namespace)
    assert found.status in (Status.FAILED, Status.CRASHED)
    assert all(text in found.message for text in wrong.says), found.message


@pytest.mark.parametrize("style", STAYS_FLOAT32)
def test_tensor_left_in_float32_is_named(style: str) -> None:
    wrong = STAYS_FLOAT32[style]
    found = verdict(it_moves_to_another_dtype, wrong.namespace)
    assert all(text in found.message for text in wrong.says), found.message


@pytest.mark.parametrize("style", TAKES_ANY_DTYPE)
def test_dtype_agnostic_modules_move(style: str) -> None:
    found = verdict(it_moves_to_another_dtype, TAKES_ANY_DTYPE[style].namespace)
    assert (found.status, found.message) == (Status.PASSED, "")
