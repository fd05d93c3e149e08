"""A context of another width than the tokens: right modules keep all claims, wrong ones do not."""

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headcheck.exercises.contract_file import load_contract
from headcheck.exercises.exercise import BadContract
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.harness.harness import Harness
from tests.properties.test_combinations import find_broken

ALL = "every_number_of_the_context_counts"
APART = "keys_and_values_come_from_their_own_tokens"
CONTRACT = """name = "Attention"
capabilities = ["full", "batch", "stable", "cross"]
call = ["x", "context"]

[arguments]
query_dim = "d_in"
context_dim = "d_context"
inner_dim = "d_out"
heads = "heads"
kv_heads = "kv_heads"

[parameters]
"to_q.weight" = "W_q"
"to_kv.weight" = ["W_k", "W_v"]
"to_out.weight" = "W_o"
"to_out.bias" = "b_o"
"""


class Attention(nn.Module):
    """As in implementations of Perceiver: one layer for keys and values of the context."""

    def __init__(
        self, query_dim: int, context_dim: int, inner_dim: int, heads: int, kv_heads: int
    ) -> None:
        super().__init__()
        self.heads, self.width = heads, inner_dim // heads
        self.to_q = nn.Linear(query_dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(context_dim, 2 * kv_heads * self.width, bias=False)
        self.to_out = nn.Linear(inner_dim, inner_dim)

    def read(self, x: Tensor, context: Tensor) -> tuple[Tensor, ...]:
        return self.to_q(x), *self.to_kv(context).chunk(2, dim=-1)

    def average(self, q: Tensor, k: Tensor, v: Tensor, context: Tensor) -> Tensor:
        weights = torch.softmax(torch.einsum("bhid,bhjd->bhij", q, k) * self.width**-0.5, dim=-1)
        return torch.einsum("bhij,bhjd->bhid", weights, v)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        cut = (t.unflatten(-1, (-1, self.width)).transpose(1, 2) for t in self.read(x, context))
        q, k, v = (t.repeat_interleave(self.heads // t.shape[1], dim=1) for t in cut)
        output: Tensor = self.to_out(self.average(q, k, v, context).transpose(1, 2).flatten(2))
        return output


class Fused(Attention):
    """torch's own attention, which shares keys itself."""

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (-1, self.width)) for t in self.read(x, context))
        q, k, v = (torch.permute(t, (0, 2, 1, 3)) for t in (q, k, v))
        given = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        output: Tensor = self.to_out(given.permute(0, 2, 1, 3).reshape(*x.shape[:2], -1))
        return output


class FirstNumbers(Attention):
    def read(self, x: Tensor, context: Tensor) -> tuple[Tensor, ...]:
        known = context[..., : x.shape[-1]]
        return super().read(x, F.pad(known, (0, context.shape[-1] - x.shape[-1])))


class ScaledByContext(Attention):
    def average(self, q: Tensor, k: Tensor, v: Tensor, context: Tensor) -> Tensor:
        return (q @ k.mT / math.sqrt(context.shape[-1])).softmax(-1) @ v


class OfItself(Attention):
    def read(self, x: Tensor, context: Tensor) -> tuple[Tensor, ...]:
        return super().read(x, F.pad(x, (0, context.shape[-1] - x.shape[-1])))


class FirstNumbersOfValues(Attention):
    def read(self, x: Tensor, context: Tensor) -> tuple[Tensor, ...]:
        q, k, _ = super().read(x, context)
        layer = self.to_kv.weight.chunk(2)[1][:, : x.shape[-1]]
        return q, k, F.linear(context[..., : x.shape[-1]], layer)


RIGHT = (Attention, Fused)
WRONG = {
    FirstNumbers: ALL,
    FirstNumbersOfValues: ALL,
    ScaledByContext: APART,
    OfItself: APART,
}


def judge(made: type[nn.Module], folder: Path) -> str:
    file = folder / "contract.toml"
    file.write_text(CONTRACT, encoding="utf-8")
    return find_broken(Harness(make_subject({"Attention": made}), load_contract(file)))


@pytest.mark.parametrize("made", RIGHT)
def test_all_claims_hold_of_a_right_module(made: type[nn.Module], tmp_path: Path) -> None:
    assert judge(made, tmp_path) == ""


@pytest.mark.parametrize("made", WRONG)
def test_a_wrong_module_breaks_a_claim(made: type[nn.Module], tmp_path: Path) -> None:
    assert judge(made, tmp_path).startswith(WRONG[made])  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CONTRACT.replace(', "cross"', ""), "list `cross`"),
        (CONTRACT + '[call_form.cache]\nargument = "cache"\n', "a module that calls twice"),
        (CONTRACT.replace('call = ["x", "context"]\n', ""), "a call passes the context by itself"),
        (
            CONTRACT.replace('"to_q.weight" = "W_q"\n', "").replace('["W_k"', '["W_q", "W_k"'),
            "store them apart",
        ),
        (
            CONTRACT.replace("[param", 'd_latent = "d_latent"\n\n[param')
            + '"down.weight" = "W_down"\n',
            "leave d_context out",
        ),
    ],
)
def test_what_contradicts_it_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "contract.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadContract, match=said):
        load_contract(file)
