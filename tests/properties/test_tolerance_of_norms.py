"""The evidence for the bounds of norms: right algorithms stay within, wrong ones do not.

A ratio is the difference from the oracle over B; up to K·B, K = 4, is accepted. The largest of
an output is 0.10, in float32 and bfloat16, of a gradient 0.06, in float32.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.properties.bounds.attention import K
from headcheck.properties.cases.case_tensors import make_parameters, make_tokens
from headcheck.properties.contracts.contract import Contract, Norm
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.parts.norms import LEAST
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.case import Case, InputContent
from headcheck.properties.terms.size_rules import parse_sizes
from headcheck.reference import Parameters, Variant
from tests.properties.evidence import (
    SIZES,
    Measured,
    finish,
    measure_gradients,
    measure_output,
    project,
    score,
    widen,
)

C = Capability
PLAIN = BY_SLUG["multi_head_attention"].contract
TRIED = ["float64", "float32", "bfloat16"]
DTYPE = pytest.mark.sampled("dtype", TRIED, TRIED[:1])
KIND = pytest.mark.parametrize("kind", [Norm.RMS, Norm.LAYER])
EPSILON = 1e-6
Compute = Callable[[Tensor, Tensor, bool], Tensor]
"""norms queries or keys, given a gain, with the mean subtracted or not"""


def make_contract(kind: Norm) -> Contract:
    gains = tuple(ParameterMapping(f"{name}.weight", (f"gain_{name}",)) for name in "qk")
    steps = PLAIN.capabilities - {C.DOT_PRODUCT, C.UNNORMED, C.FULL} | {C.CAUSAL}
    changed = replace(
        PLAIN, mappings=(*PLAIN.mappings, *gains), norm=kind, norm_epsilon=EPSILON,
        capabilities=steps,
    )  # fmt: skip
    return changed.with_sizes(parse_sizes(f"head_dim>={LEAST[kind]}"))


def by_hand(t: Tensor, gain: Tensor, centred: bool) -> Tensor:
    t = t - t.mean(-1, keepdim=True) if centred else t
    return t / (t.pow(2).mean(-1, keepdim=True) + EPSILON).sqrt() * gain


def by_torch(t: Tensor, gain: Tensor, centred: bool) -> Tensor:
    norm = F.layer_norm if centred else F.rms_norm
    return norm(t, t.shape[-1:], gain, eps=EPSILON)


def by_variance(t: Tensor, gain: Tensor, centred: bool) -> Tensor:
    size = t.var(-1, keepdim=True, correction=0) if centred else t.square().mean(-1, keepdim=True)
    t = t - t.mean(-1, keepdim=True) if centred else t
    return gain * (t * torch.rsqrt(size + EPSILON))


def in_float32(t: Tensor, gain: Tensor, centred: bool) -> Tensor:
    return by_hand(t.to(widen(t)), gain.to(widen(t)), centred).to(t.dtype)


RIGHT: dict[str, Compute] = {
    "by hand": by_hand, "torch": by_torch, "variance": by_variance, "float32": in_float32,
}  # fmt: skip
WRONG: dict[str, Compute] = {
    "none": lambda t, gain, _: t * gain,
    "other kind": lambda t, gain, centred: by_hand(t, gain, not centred),
    "no gain": lambda t, gain, centred: by_hand(t, torch.ones_like(gain), centred),
    "no root": lambda t, gain, _: t / (t.square().mean(-1, keepdim=True) + EPSILON) * gain,
    "a thousandth more": lambda t, gain, centred: by_hand(t, gain * 1.001, centred),
}


def list_cases(contract: Contract, dtype: str, **sizes: int) -> Iterator[Case]:
    contents = (InputContent.NORMAL, InputContent.OUTLIER, InputContent.ZERO)
    for size, sharpness, content in itertools.product(SIZES, (1, 8), contents):
        drawn = replace(size, sharpness=sharpness, content=content, dtype=dtype, seed=3)
        yield contract.fit(replace(drawn, **sizes))  # type: ignore[arg-type]  # each is a size


def shift(t: Tensor, own: Tensor | None) -> Tensor:
    return t if own is None else t + own


def attend(x: Tensor, p: Parameters, case: Case, contract: Contract, compute: Compute) -> Tensor:
    q, k, v = project(x, p, case.heads)
    assert p.gain_q is not None and p.gain_k is not None
    centred = contract.norm is Norm.LAYER
    q, k = compute(q, p.gain_q, centred), compute(k, p.gain_k, centred)
    return finish(score(q, k).softmax(-1) @ v, p)


def measure_all(
    measured: Measured, contract: Contract, cases: Iterable[Case], attend: Callable[..., Tensor]
) -> float:
    """The largest ratio on any of the cases."""
    ratios = []
    for case in cases:
        x, p = make_tokens(case, contract), make_parameters(case, contract)
        own = partial(attend, case=case, contract=contract)
        ratios.append(measured(contract, case, x, p, own))
    return max(ratios)


@DTYPE
@KIND
@pytest.mark.parametrize("measured", [measure_output, measure_gradients])
@pytest.mark.parametrize("name", RIGHT)
def test_right_norms_stay_within(name: str, measured: Measured, kind: Norm, dtype: str) -> None:
    contract, own = make_contract(kind), partial(attend, compute=RIGHT[name])
    assert measure_all(measured, contract, list_cases(contract, dtype), own) <= K / 2


@KIND
@pytest.mark.parametrize("name", WRONG)
def test_wrong_norms_do_not(name: str, kind: Norm) -> None:
    contract, own = make_contract(kind), partial(attend, compute=WRONG[name])
    every = list_cases(contract, "float64")
    assert measure_all(measure_output, contract, every, own) > 1000 * K


@KIND
def test_norms_are_those_of_torch(kind: Norm) -> None:
    variant = Variant(norm=kind.value, epsilon=EPSILON)
    t, gain, shift = torch.randn(2, 3, 5, 4).double(), torch.randn(4).double(), torch.randn(4)
    if kind is Norm.LAYER:
        wanted = F.layer_norm(t, (4,), gain, shift.double(), EPSILON)
        torch.testing.assert_close(variant.normalise(t, gain, shift.double()), wanted)
    else:
        wanted = F.rms_norm(t, (4,), gain, EPSILON)
        torch.testing.assert_close(variant.normalise(t, gain), wanted)
