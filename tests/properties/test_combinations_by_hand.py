"""Combinations of parts as libraries write them: right modules keep all claims, wrong ones do not.

Differential attention with a norm of each half of a head is that of timm, gains for each head are
those of Cohere's models, and the slopes of two sequences are those of BLOOM.
"""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from headcheck.exercises.contract_file import load_contract
from headcheck.exercises.exercise import BadContract
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.harness.harness import Harness
from tests.properties.test_combinations import find_broken

EPSILON = 1e-6
HEAD = """name = "Attention"
capabilities = ["causal", "batch", "stable"]
"""
ARGUMENTS = """[arguments]
d_in = "d_in"
d_out = "d_out"
heads = "heads"
"""
LAYERS = """[parameters]
"query.weight" = "W_q"
"key.weight" = "W_k"
"value.weight" = "W_v"
"out.weight" = "W_o"
"""
CONTRACTS = {
    "DifferentialWithNorms": (
        f'{HEAD}norm = "rms"\nnorm_epsilon = {EPSILON}\nsize_rules = "head_dim%4"\n{ARGUMENTS}'
        f'{LAYERS}lambdas = "lambdas"\ngain_q = "gain_q"\ngain_k = "gain_k"\n'
    ),
    "Narrow": (
        f'{HEAD}{ARGUMENTS}d_latent = "d_latent"\n{LAYERS}"down.weight" = "W_down"\n'
        '[call_form.cache]\nargument = "cache"\n'
    ),
    "OwnGains": (
        f'{HEAD}norm = "layer"\nnorm_epsilon = {EPSILON}\nsize_rules = "head_dim>=3"\n{ARGUMENTS}'
        f'{LAYERS}gain_q = {{ holds = "gain_q", packing = "stacked" }}\n'
        'gain_k = { holds = "gain_k", packing = "stacked" }\n'
    ),
    "OwnHeadNorms": (
        f'{HEAD}head_norm = "layer"\nhead_norm_epsilon = {EPSILON}\n'
        f'size_rules = "head_dim>=3 d_in>=2"\n{ARGUMENTS}{LAYERS}"gate.weight" = "W_gate"\n'
        '"norm.weight" = { holds = "gain_heads", packing = "heads" }\n'
        '"norm.bias" = { holds = "shift_heads", packing = "heads" }\n'
        '[call_form.cache]\nargument = "cache"\n'
    ),
    "TwoSequences": f'{HEAD}positions = "alibi_two_sequences"\n{ARGUMENTS}{LAYERS}',
}
WRONG = (
    ("DifferentialWithNorms", "norm of whole heads"),
    ("DifferentialWithNorms", "norm after the halves are multiplied"),
    ("Narrow", "scale of a latent"),
    ("Narrow", "keys of tokens kept"),
    ("OwnGains", "gain of the first head"),
    ("OwnGains", "norm of all heads"),
    ("OwnHeadNorms", "gate before the norm"),
    ("OwnHeadNorms", "norm of all heads"),
    ("OwnHeadNorms", "statistics of all tokens"),
    ("TwoSequences", "one sequence"),
    ("TwoSequences", "every slope of the second"),
)


def split(t: Tensor, heads: int) -> Tensor:
    parts: Tensor = t.unflatten(-1, (heads, -1))
    return parts.transpose(1, 2)


def average(scores: Tensor, value: Tensor) -> Tensor:
    queries, keys = scores.shape[-2:]
    later = torch.ones_like(scores).triu(keys - queries + 1) > 0
    return scores.masked_fill(later, -torch.inf).softmax(-1) @ value


class Layers(nn.Module):
    slip = ""

    def __init__(self, d_in: int, d_out: int, heads: int, read: int = 0) -> None:
        super().__init__()
        self.heads, self.width = heads, d_out // heads
        self.query = nn.Linear(d_in, d_out, bias=False)
        self.key = nn.Linear(read or d_in, d_out, bias=False)
        self.value = nn.Linear(read or d_in, d_out, bias=False)
        self.out = nn.Linear(d_out, d_out, bias=False)

    def project(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(split(layer(x), self.heads) for layer in (self.query, self.key, self.value))

    def finish(self, context: Tensor) -> Tensor:
        output: Tensor = self.out(context.transpose(1, 2).flatten(2))
        return output


class DifferentialWithNorms(Layers):
    def __init__(self, d_in: int, d_out: int, heads: int) -> None:
        super().__init__(d_in, d_out, heads)
        self.lambdas = nn.Parameter(torch.full((heads,), 0.8))
        self.gain_q = nn.Parameter(torch.ones(self.width // 2))
        self.gain_k = nn.Parameter(torch.ones(self.width // 2))

    def norm(self, t: Tensor, gain: Tensor) -> Tensor:
        """Norm each half of a head; the halves are further heads, (batch, 2 heads, …)."""
        size: Tensor = t.square().mean(-1, keepdim=True)
        if self.slip == "norm of whole heads":
            both: Tensor = size.unflatten(1, (-1, 2))
            size = both.mean(2, keepdim=True).expand_as(both).flatten(1, 2)
        return t * (size + EPSILON).rsqrt() * gain

    def forward(self, x: Tensor) -> Tensor:
        query, key = (split(layer(x), 2 * self.heads) for layer in (self.query, self.key))
        value = split(self.value(x), self.heads)
        if self.slip == "norm after the halves are multiplied":
            query, key = query * self.gain_q, key * self.gain_k
            query, key = self.norm(query, torch.ones(())), self.norm(key, torch.ones(()))
        else:
            query, key = self.norm(query, self.gain_q), self.norm(key, self.gain_k)
        scores = (query @ key.mT / math.sqrt(self.width // 2)).unflatten(1, (-1, 2))
        first, second = average(scores[:, :, 0], value), average(scores[:, :, 1], value)
        return self.finish(first - self.lambdas[:, None, None] * second)


class Narrow(Layers):
    def __init__(self, d_in: int, d_out: int, heads: int, d_latent: int) -> None:
        super().__init__(d_in, d_out, heads, d_latent)
        self.down = nn.Linear(d_in, d_latent, bias=False)

    def forward(self, x: Tensor, cache: Tensor | None = None) -> tuple[Tensor, Tensor]:
        new = x if self.slip == "keys of tokens kept" else self.down(x)
        kept = new if cache is None else torch.cat([cache, new], dim=1)
        latent = self.down(kept) if self.slip == "keys of tokens kept" else kept
        query = split(self.query(x), self.heads)
        key, value = (split(layer(latent), self.heads) for layer in (self.key, self.value))
        width = latent.shape[-1] if self.slip == "scale of a latent" else self.width
        return self.finish(average(query @ key.mT / math.sqrt(width), value)), kept


class OwnHeadNorms(Layers):
    """A group norm of each token, whose groups are heads, and a gate behind it."""

    def __init__(self, d_in: int, d_out: int, heads: int) -> None:
        super().__init__(d_in, d_out, heads)
        self.norm = nn.GroupNorm(heads, d_out, eps=EPSILON)
        self.gate = nn.Linear(d_in, d_out, bias=False)

    def normed(self, t: Tensor) -> Tensor:
        if self.slip == "statistics of all tokens":
            over_tokens: Tensor = self.norm(t.mT)
            return over_tokens.mT
        groups = 1 if self.slip == "norm of all heads" else self.heads
        own = self.norm.weight, self.norm.bias, EPSILON
        each = nn.functional.group_norm(t.flatten(0, 1), groups, *own)
        normed: Tensor = each.unflatten(0, t.shape[:2])
        return normed

    def forward(self, x: Tensor, cache: Tensor | None = None) -> tuple[Tensor, Tensor]:
        query, *new = self.project(x)
        kept = torch.stack(new)
        kept = kept if cache is None else torch.cat([cache, kept], dim=-2)
        given = average(query @ kept[0].mT / math.sqrt(self.width), kept[1])
        merged, gate = given.transpose(1, 2).flatten(2), self.gate(x).sigmoid()
        early = self.slip == "gate before the norm"
        normed = self.normed(gate * merged) if early else gate * self.normed(merged)
        output: Tensor = self.out(normed)
        return output, kept


class OwnGains(Layers):
    def __init__(self, d_in: int, d_out: int, heads: int) -> None:
        super().__init__(d_in, d_out, heads)
        self.gain_q = nn.Parameter(torch.ones(heads, self.width))
        self.gain_k = nn.Parameter(torch.ones(heads, self.width))

    def norm(self, t: Tensor, gain: Tensor) -> Tensor:
        axes = (1, 3) if self.slip == "norm of all heads" else (3,)
        centred = t - t.mean(axes, keepdim=True)
        own = gain[:1] if self.slip == "gain of the first head" else gain
        size = (centred.square().mean(axes, keepdim=True) + EPSILON).rsqrt()
        return centred * size * own[:, None]

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x)
        query, key = self.norm(query, self.gain_q), self.norm(key, self.gain_k)
        return self.finish(average(query @ key.mT / math.sqrt(self.width), value))


class TwoSequences(Layers):
    def slopes(self, x: Tensor) -> Tensor:
        """Return the slopes as BLOOM makes them."""
        power, heads = 2 ** math.floor(math.log2(self.heads)), self.heads
        if self.slip == "one sequence":
            return torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)]).to(x)
        own = [2.0 ** (-8 * (h + 1) / power) for h in range(power)]
        step = 1 if self.slip == "every slope of the second" else 2
        more = range(1, 1 + step * min(power, heads - power), step)
        return torch.tensor(own + [2.0 ** (-4 * h / power) for h in more]).to(x)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x)
        place = torch.arange(x.shape[1], device=x.device)
        back = (place[:, None] - place).clamp_min(0)
        scores = query @ key.mT / math.sqrt(self.width)
        return self.finish(average(scores - self.slopes(x)[:, None, None] * back, value))


MODULES = (DifferentialWithNorms, Narrow, OwnGains, OwnHeadNorms, TwoSequences)


def read(text: str, folder: Path) -> Contract:
    file = folder / "contract.toml"
    file.write_text(text, encoding="utf-8")
    return load_contract(file)


def judge(name: str, folder: Path, slip: str = "") -> str:
    [module] = [each for each in MODULES if each.__name__ == name]
    subject = make_subject({"Attention": type("Attention", (module,), {"slip": slip})})
    return find_broken(Harness(subject, read(CONTRACTS[name], folder)))


@pytest.mark.sampled("name", tuple(CONTRACTS), tuple(CONTRACTS)[:1])
def test_all_claims_hold_of_a_right_module(name: str, tmp_path: Path) -> None:
    assert judge(name, tmp_path) == ""


@pytest.mark.sampled(("name", "slip"), WRONG, WRONG[::3])
def test_a_slip_breaks_a_claim(name: str, slip: str, tmp_path: Path) -> None:
    assert judge(name, tmp_path, slip)


DIFFERENTIAL, NARROW, _, NORMS, TWO = CONTRACTS.values()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TWO.replace("[arg", 'size_rules = "heads=2,8"\n[arg'), "where heads are a power of two"),
        (NARROW.replace('d_latent = "d_latent"\n', ""), "takes d_latent"),
        (NARROW.replace('"down.weight"', '"turn.weight" = "W_qr"\n"down.weight"'), "W_kr"),
        (
            DIFFERENTIAL.replace(
                'gain_q = "gain_q"', 'gain_q = { holds = "gain_q", packing = "stacked" }'
            ),
            "the halves of all heads share one gain",
        ),
        (NORMS.replace('head_norm = "layer"\n', ""), 'write head_norm = "rms" or "layer"'),
        (NORMS.replace("head_dim>=3 ", ""), "leaves only signs"),
        (NORMS.replace(" d_in>=2", ""), "lie in one direction"),
        (
            NORMS.replace(LAYERS, f'rate = "dropout"\n{LAYERS}'),
            "hides which weights dropout has kept",
        ),
        (TWO.replace("[arg", "head_norm_factor = 2\n[arg"), "leave it out"),
        (DIFFERENTIAL + 'sinks = "sinks"\n', "no published model has lambdas and sinks"),
    ],
)
def test_what_contradicts_a_part_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadContract, match=said):
        read(text, tmp_path)
