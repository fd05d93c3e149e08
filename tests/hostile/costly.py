"""Submissions that are out to cost time, and one honest answer that they are made from.

Six are those of a review; the others are ways around whatever ends those.
"""

from collections.abc import Mapping

HONEST = """
import itertools
import os
import time

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads:
            raise ValueError("num_heads must divide d_out")
        self.heads, self.calls = num_heads, itertools.count()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        future = torch.triu(torch.ones(context_length, context_length), diagonal=1)
        self.register_buffer("future", future.bool())

    def forward(self, x):
        layers = self.W_query, self.W_key, self.W_value
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in layers)
        scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(self.future[: x.shape[1], : x.shape[1]], -torch.inf)
        mixed = self.dropout(torch.softmax(scores, dim=-1)) @ v
        return self.out_proj(mixed.transpose(1, 2).flatten(2))
"""

_CALL = "        layers = self.W_query"
_RETURN = "        return self.out_proj(mixed.transpose(1, 2).flatten(2))"
_BUILT = "        self.heads, self.calls"
_BUILT_AT = "    def __init__"
_CLASS = "\n\nclass MultiHeadAttention"
_BACKWARD = """
        answer = self.out_proj(mixed.transpose(1, 2).flatten(2))
        if answer.requires_grad:
            answer.register_hook(lambda gradient: time.sleep(60))
        return answer
"""
_LOOP = "        while True:\n            pass"


def _insert_before(mark: str, *lines: str) -> str:
    """The honest answer with lines before the one that begins so."""
    assert mark in HONEST
    return HONEST.replace(mark, "\n".join([*lines, mark]), 1)


def _replace_return(result: str) -> str:
    """The honest answer with another result."""
    return HONEST.replace(_RETURN, result)


def _repeat_class(source: str, count: int) -> str:
    """The class so many times, under names that are all judged."""
    head, _, body = source.partition(_CLASS)
    return head + "".join(f"{_CLASS}{n or ''}{body}" for n in range(count))


_SLEEPS = _insert_before(_CALL, "        time.sleep(60)")

COSTLY: Mapping[str, str] = {
    "sleeps": _SLEEPS,
    "thirteen_sleepers": _repeat_class(_SLEEPS, 13),
    "random_answers": _replace_return(
        "        noise = torch.frombuffer(bytearray(os.urandom(x.numel())), dtype=torch.uint8)\n"
        "        answer = self.out_proj(mixed.transpose(1, 2).flatten(2))\n"
        "        return answer + noise.to(x.dtype).mean() / 256"
    ),
    "huge_replies": _replace_return("        return torch.zeros(31 << 20, dtype=torch.float64)"),
    "empty_tensors": _replace_return("        return (torch.empty(0),) * 100_000"),
    "running_statistic": _replace_return(
        "        answer = self.out_proj(mixed.transpose(1, 2).flatten(2))\n"
        "        largest = float(x.detach().abs().max())\n"
        "        self.largest = max(getattr(self, 'largest', 0.0), largest)\n"
        "        return answer * (largest / self.largest if self.largest else 1.0)"
    ),
}
"""what a review found to cost a class most, by name"""

COSTLY_VARIANTS: Mapping[str, str] = {
    "sleeps_at_import": _insert_before(_BUILT_AT, "    nap = time.sleep(60)"),
    "sleeps_while_built": _insert_before(_BUILT, "        time.sleep(60)"),
    "sleeps_a_little_while_built": _insert_before(_BUILT, "        time.sleep(0.3)"),
    "sleeps_in_float32": _insert_before(
        _CALL, "        if x.dtype == torch.float32:", "            time.sleep(60)"
    ),
    "sleeps_in_backward": HONEST.replace(_RETURN, _BACKWARD),
    "sleeps_when_deleted": HONEST + "\n    def __del__(self):\n        time.sleep(60)\n",
    "sleeps_below_a_second": _insert_before(_CALL, "        time.sleep(0.9)"),
    "sleeps_above_a_second": _insert_before(_CALL, "        time.sleep(1.1)"),
    "sleeps_now_and_then": _insert_before(
        _CALL, "        if next(self.calls) % 3 == 2:", "            time.sleep(9)"
    ),
    "loops": _insert_before(_CALL, _LOOP),
    "computes_below_a_second": _insert_before(
        _CALL,
        "        end = time.process_time() + 0.9",
        "        while time.process_time() < end:",
        "            pass",
    ),
    "global_statistic": _replace_return(
        "        answer = self.out_proj(mixed.transpose(1, 2).flatten(2))\n"
        "        MultiHeadAttention.mean = 0.9 * getattr(MultiHeadAttention, 'mean', 0.0) "
        "+ 0.1 * float(answer.detach().mean())\n"
        "        return answer - MultiHeadAttention.mean"
    ),
    "running_mean": _replace_return(
        "        answer = self.out_proj(mixed.transpose(1, 2).flatten(2))\n"
        "        self.mean = 0.9 * getattr(self, 'mean', 0.0) + 0.1 * answer.detach().mean()\n"
        "        return answer - self.mean"
    ),
    "nothing_but_noise": _replace_return(
        "        noise = bytearray(os.urandom(x[..., 0].numel() * self.out_proj.out_features))\n"
        "        noise = torch.frombuffer(noise, dtype=torch.uint8).to(x.dtype) / 256\n"
        "        return noise.view(*x.shape[:2], -1)"
    ),
    "noise_now_and_then": _replace_return(
        "        answer = self.out_proj(mixed.transpose(1, 2).flatten(2))\n"
        "        return answer + (os.urandom(1)[0] < 30)"
    ),
    "random_shapes": _replace_return("        return torch.zeros(1 + os.urandom(1)[0], 2, 3)"),
    "replies_below_the_limit": _replace_return("        return torch.zeros(1 << 17, 255).double()"),
    "tensors_below_the_limit": _replace_return("        return (torch.empty(0),) * 60"),
    "thirteen_right_ones": _repeat_class(HONEST, 13),
    "thirteen_random_ones": "",
    "ends_itself": _insert_before(_CALL, "        os._exit(0)"),
    "raises_sometimes": _insert_before(
        _CALL, "        if os.urandom(1)[0] > 200:", "            raise ValueError(x)"
    ),
}
COSTLY_VARIANTS = {
    **COSTLY_VARIANTS,
    "thirteen_random_ones": _repeat_class(COSTLY["random_answers"], 13),
}
