"""Functions of query, key and value take what modules take: masks, windows, limits, shared keys.

The right function is written by hand, as in the tests of libraries; a wrong one differs in a step.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from headcheck.exercises.contract_file import load_contract
from headcheck.exercises.exercise import BadContract
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.harness.harness import Harness
from tests.properties.test_combinations import find_broken

RIGHT = (
    "causal mask window softcap grouped",
    "causal cross rotary window grouped",
    "causal cross alibi",
    "full cross grouped softcap",
    "full mask softcap",
    "full logsumexp softcap grouped",
)
WRONG = (
    ("causal mask window", "wider"),
    ("causal grouped", "tiled"),
    ("causal cross rotary", "from zero"),
    ("causal cross alibi", "top left"),
    ("causal cross window", "top left"),
    ("full softcap", "uncapped"),
    ("full mask", "unmasked"),
)


def rotate(t: Tensor, positions: Tensor) -> Tensor:
    wide = torch.promote_types(t.dtype, torch.float32)
    frequencies = 10_000.0 ** (-torch.arange(0, t.shape[-1], 2, dtype=wide) / t.shape[-1])
    angles = positions.reshape(-1, 1).to(wide) * frequencies
    turned = torch.polar(torch.ones_like(angles), angles) * torch.complex(
        *(half.to(wide) for half in t.chunk(2, dim=-1))
    )
    return torch.cat([turned.real, turned.imag], dim=-1).to(t.dtype)


def repeat(t: Tensor, heads: int, slip: str) -> Tensor:
    times = heads // t.shape[1]
    return t.repeat(1, times, 1, 1) if slip == "tiled" else t.repeat_interleave(times, dim=1)


def make_function(words: list[str], slip: str = "") -> Callable[..., Any]:
    names = [name for name in ("mask", "window", "softcap") if name in words]

    def attend(q: Tensor, k: Tensor, v: Tensor, *rest: Tensor | float | None) -> Any:
        given: dict[str, Any] = dict(zip(names, rest, strict=False))
        (heads, queries, width), keys = q.shape[1:], k.shape[2]
        k, v = repeat(k, heads, slip), repeat(v, heads, slip)
        key = torch.arange(keys)[None]
        query = torch.arange(queries)[:, None] + (0 if slip == "top left" else keys - queries)
        if "rotary" in words:
            own = torch.arange(queries)[:, None] if slip == "from zero" else query
            q, k = rotate(q, own), rotate(k, key)
        scores = q @ k.mT / width**0.5
        if "alibi" in words:
            slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
            fall = slopes.double()[:, None, None] * (query - key).clamp_min(0)
            scores = scores - fall.to(scores.dtype)
        if "softcap" in given and slip != "uncapped":
            scores = given["softcap"] * torch.tanh(scores / given["softcap"])
        keep = key <= query if "causal" in words else torch.ones(queries, keys, dtype=torch.bool)
        if "window" in given:
            keep = keep & ((query - key).abs() < given["window"] + (slip == "wider"))
        if given.get("mask") is not None and slip != "unmasked":
            keep = keep & (given["mask"] != 0)
        scores = scores.masked_fill(~keep, -torch.inf)
        output = scores.softmax(-1) @ v
        return (output, scores.logsumexp(-1)) if "logsumexp" in words else output

    return attend


def write_contract(words: list[str]) -> str:
    inputs = ["query", "key", "value", *(["mask"] if "mask" in words else [])]
    listed = [each for each in words if each in ("causal", "full", "cross", "grouped")]
    taken = [each for each in ("window", "softcap") if each in words]
    turned = {"rotary": 'positions = "rotary"\nsize_rules = "head_dim=even"\n'}
    lowered = {"alibi": 'positions = "alibi"\n'}
    returned = {"logsumexp": 'returns = "output_and_logsumexp"\n'}
    keys = "".join((turned | lowered | returned).get(each, "") for each in words)
    head = f'name = "attend"\nentry = "function"\nsquare = true\ncall = {inputs}\n'
    head += f"capabilities = {[*listed, 'batch', 'stable']}\n"
    arguments = "".join(f'{each} = "{each}"\n' for each in taken)
    table = f"[arguments]\n{arguments}" if taken else ""
    return head.replace("'", '"') + keys + table + '[call_form]\naxes = "heads_first"\n'


def judge(words: str, folder: Path, slip: str = "") -> str:
    file = folder / "contract.toml"
    file.write_text(write_contract(words.split()), encoding="utf-8")
    subject = make_subject({"attend": make_function(words.split(), slip)})
    return find_broken(Harness(subject, load_contract(file)))


@pytest.mark.sampled("words", RIGHT, RIGHT[:2])
def test_all_claims_hold_of_a_right_function(words: str, tmp_path: Path) -> None:
    assert judge(words, tmp_path) == ""


@pytest.mark.sampled(("words", "slip"), WRONG, WRONG[:3])
def test_a_slip_breaks_a_claim(words: str, slip: str, tmp_path: Path) -> None:
    assert judge(words, tmp_path, slip)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("full cross rotary", "two sequences have no common positions"),
        ("full cross window", "two sequences have no common positions"),
        ("full mask logsumexp", "a log-sum-exp covers all keys"),
        ("full window logsumexp", "a log-sum-exp covers all keys"),
    ],
)
def test_what_means_nothing_is_refused(words: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadContract, match=said):
        judge(words, tmp_path)


def test_keys_that_are_not_cut_into_heads_are_not_shared(tmp_path: Path) -> None:
    file = tmp_path / "contract.toml"
    text = write_contract(["causal", "grouped"]).replace('axes = "heads_first"\n', "")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadContract, match="keys cut into heads"):
        load_contract(file)
