"""Keys and values may be made of latents, and numbers beside heads rotate."""

from typing import Any

import pytest

from headcheck.properties.binding.binding import NotBound
from headcheck.properties.binding.describe import describe_attention
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.contracts.contract import Positions
from headcheck.properties.terms.case import Case
from tests.properties.binding.strangers import (
    CAUSAL,
    HEAD,
    THIRDS,
    bind_source,
    make,
    mistaken,
    must_bind,
)

pytestmark = pytest.mark.filterwarnings("ignore")

COMMON = """
def turn(t, base=1e4):
    rates = base ** -(torch.arange(0, t.shape[-1], 2, dtype=t.dtype) / t.shape[-1])
    angles = torch.outer(torch.arange(t.shape[-2], dtype=t.dtype), rates)
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    a, b = t.chunk(2, -1)
    return t * cos + torch.cat([-b, a], -1) * sin

def weigh(s):
    hidden = torch.ones(s.shape[-2:], dtype=torch.bool).triu(1)
    return s.masked_fill(hidden, -torch.inf).softmax(-1)
"""
PLAIN = make(
    takes="dim, heads, latent_dim, bias=False",
    init="self.ask, self.o_proj = nn.Linear(dim, dim, bias=bias), nn.Linear(dim, dim)\n"
    "self.shrink = nn.Linear(dim, latent_dim, bias=bias)\n"
    "self.one, self.other = (nn.Linear(latent_dim, dim, bias=bias) for _ in range(2))",
    project="latents = self.shrink(x)\nq, k, v = (\n"
    "    t.unflatten(-1, (self.heads, -1)).transpose(1, 2)\n"
    "    for t in (self.ask(x), self.one(latents), self.other(latents))\n)",
    softmax="w = weigh(s)",
    out="o = self.o_proj((w @ v).transpose(1, 2).flatten(2))",
    before=COMMON,
)
BESIDE = f"""
{HEAD}{COMMON}
class Own(nn.Module):
    def __init__(self, dim, n_heads, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim):
        super().__init__()
        self.heads, self.rank, self.own = n_heads, kv_lora_rank, qk_nope_head_dim
        self.beside = qk_rope_head_dim
        self.wq = nn.Linear(dim, n_heads * (self.own + self.beside), bias=False)
        self.wkv_a = nn.Linear(dim, kv_lora_rank + self.beside, bias=False)
        self.kv_norm = nn.RMSNorm(kv_lora_rank)
        self.wkv_b = nn.Linear(kv_lora_rank, n_heads * 2 * self.own, bias=False)
        self.wo = nn.Linear(n_heads * self.own, dim, bias=False)

    def forward(self, x):
        q = self.wq(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, q_turned = q.split([self.own, self.beside], -1)
        latents, k_turned = self.wkv_a(x).split([self.rank, self.beside], -1)
        kv = self.wkv_b(self.kv_norm(latents)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = kv.chunk(2, -1)
        q_turned, k_turned = turn(q_turned), turn(k_turned[:, None])
        s = q @ k.mT + q_turned @ k_turned.mT
        w = weigh(s / (self.own + self.beside) ** 0.5)
        return self.wo((w @ v).transpose(1, 2).flatten(2))
"""
HELD = {
    "wq.weight": ("W_q", "W_qr"),
    "wkv_a.weight": ("W_down", "W_kr"),
    "wkv_b.weight": ("W_k", "W_v"),
    "wo.weight": ("W_o",),
}


def edit(source: str, right: str, other: str) -> str:
    assert right in source
    return source.replace(right, other)


def test_layers_are_known_by_the_width_of_latents_whatever_they_are_called() -> None:
    contract = must_bind(PLAIN).contract
    held = {mapping.path: mapping.holds for mapping in contract.mappings}
    assert held["shrink.weight"] == ("W_down",) and held["other.weight"] == ("W_v",)
    assert held["o_proj.bias"] == ("b_o",)
    assert contract.has(C.LATENT) and not contract.has(C.BESIDE)
    assert "made of latents" in describe_attention(contract)


def test_biases_of_all_layers_are_not_claimed_because_latents_have_none() -> None:
    assert not must_bind(PLAIN).contract.has(C.BIAS)


def test_what_rotates_beside_heads_is_found_in_fused_layers() -> None:
    contract = must_bind(BESIDE).contract
    assert {mapping.path: mapping.holds for mapping in contract.mappings} == HELD
    assert contract.has(C.LATENT, C.BESIDE) and contract.positions is Positions.ROTARY
    assert contract.call_form.bypassed == ("kv_norm",)


def test_what_rotates_may_come_first() -> None:
    source = edit(BESIDE, "q, q_turned = q.split([self.own, self.beside], -1)", "q_turned, q = "
        "q.split([self.beside, self.own], -1)")  # fmt: skip
    mapping = next(m for m in must_bind(source).contract.mappings if m.path == "wq.weight")
    assert mapping.holds == ("W_qr", "W_q")


def test_widths_are_even_so_that_pairs_may_be_complex_numbers() -> None:
    case = must_bind(BESIDE).contract.fit(Case(d_latent=3, head_dim=5, heads=2))
    assert case.d_latent % 2 == case.head_dim % 2 == 0


WRONG = [
    (PLAIN, " / q.shape[-1] ** 0.5", "", "no_scale"),
    (PLAIN, "self.one(latents), self.other", "self.one(latents), self.one", "keys_averaged"),
    (BESIDE, "(self.own + self.beside) ** 0.5", "self.own**0.5", "scale_of_one_part"),
    (BESIDE, "turn(k_turned[:, None])", "k_turned[:, None]", "only_queries_turned"),
    (BESIDE, " + q_turned @ k_turned.mT", "", "turned_part_left_out"),
]


@pytest.mark.sampled(("source", "right", "other", "mistake"), WRONG, WRONG[::2])
def test_what_is_wrong_is_named(source: str, right: str, other: str, mistake: str) -> None:
    assert mistaken(edit(source, right, other)) == [mistake]


def test_a_norm_that_no_call_uses_is_not_left_out() -> None:
    """So a check fails about a parameter that the attention does not have."""
    found = must_bind(edit(BESIDE, "self.kv_norm(latents)", "latents"))
    assert found.contract.call_form.bypassed == ()


def test_a_norm_that_is_used_and_breaks_every_call_does_not_go_unseen() -> None:
    wrong = edit(BESIDE, "self.wkv_a(x).split", "self.kv_norm(self.wkv_a(x)).split")
    found = bind_source(edit(wrong, "self.kv_norm(latents)", "latents"))
    assert isinstance(found, NotBound)


def test_latents_of_another_form_are_named() -> None:
    compressed = edit(BESIDE, "self.wq = nn.Linear(dim, n", "self.wq_a = nn.Linear(dim, 20)\n"
        "        self.wq = nn.Linear(20, n")  # fmt: skip
    found = bind_source(edit(compressed, "self.wq(x)", "self.wq(self.wq_a(x).tanh())"))
    assert isinstance(found, NotBound) and "latent attention" in found.tried


def test_a_width_that_is_called_latent_may_be_that_of_tokens() -> None:
    plain: dict[str, Any] = {"latent_dim": "d_out", "heads": "heads"}
    source = make(
        takes="latent_dim, heads",
        init="self.qkv = nn.Linear(latent_dim, 3 * latent_dim)",
        project=THIRDS,
        mask=CAUSAL,
        out="o = (w @ v).transpose(1, 2).flatten(2)",
    )
    assert {a.name: a.quantity for a in must_bind(source).contract.arguments} == plain
