"""A block: norms of tokens, residuals and a feed-forward around attention.

Source: Radford et al. 2019, section 2.3 ("Language models are unsupervised multitask learners").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from headcheck.properties.parts.features import FeatureMap
from headcheck.properties.parts.norms import Norm
from headcheck.properties.parts.part import Part, Problem, holds, list_taken
from headcheck.properties.parts.positions import Positions
from headcheck.properties.parts.weight import Draws, HeadSizes, Weight, d_in, one
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.case import Case

if TYPE_CHECKING:
    from torch import Tensor

    from headcheck.properties.contracts.contract import Contract

Size = Callable[[HeadSizes], int]
LAYERS = ("W_1", "W_2")
SPREADS = {"W_1": 1.0, "W_2": 2.0}
"""the factors of a feed-forward's layers; the activation halves the spread of its input"""
OF_OTHERS = ("sinks", "lambdas", "W_gate", "W_down")
"""parameters of parts that are not supported for attention in a block"""


EXAMPLE: Mapping[str, tuple[object, ...]] = {
    "gain_in": (1.5, 1, 2, 1),
    "shift_in": (0, 3, 0, 1),
    "gain_ff": (2, 1, 1, 1.5),
    "shift_ff": (1, 0, 2, 0),
    "W_1": ((0, -1, 1, -1), (-1, 2, -1, 0), (3, -1, -1, 1), (-1, 0, 0, -1)),
    "b_1": (-1, 2, -1, 0),
    "W_2": ((0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 2), (0, 0, 1, 0)),
    "b_2": (4, 0, 0, 2),
}
"""the numbers of a worked example, whose feed-forward is as wide as its tokens"""


class Activation(StrEnum):
    """The activation between the two layers of a feed-forward."""

    NONE = ""
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"


def _d_hidden(sizes: HeadSizes) -> int:
    return sizes.d_hidden


def _make_layer(
    name: str, stream: int, rows: Size, columns: Size | None = None, words: str = ""
) -> Weight:
    """Return a layer of the feed-forward, or its bias."""

    def draw(draws: Draws) -> Tensor:
        sizes = draws.contract.get_head_sizes(draws.case)
        if columns is None:
            return draws.vector(name, rows(sizes)) / 2
        return draws.matrix(name, rows(sizes), columns(sizes), SPREADS[name])

    return Weight(
        name,
        stream,
        draw,
        one,
        rows,
        columns,
        LAYERS,
        words=words,
        make_example=lambda _: EXAMPLE[name],
    )


def _make_vector(name: str, stream: int, start: int, needs: tuple[str, ...]) -> Weight:
    """Return the gain or the shift of a norm of tokens."""
    kind, place = name.split("_")
    after = {"in": "attention", "ff": "the feed-forward"}[place]
    return Weight(
        name,
        stream,
        lambda draws: start + draws.vector(name, draws.case.d_in) / 4,
        one,
        d_in,
        needs=needs,
        words=f"the {kind} of the norm before {after}",
        make_example=lambda sizes: EXAMPLE[name],
    )


def _find_problems(contract: Contract) -> Iterator[Problem]:
    """Check that a block has all its parameters, and that attention is as wide as tokens."""
    if not contract.token_norm:
        yield ("token_norm",), None, 'a block norms its tokens: write token_norm = "layer" or "rms"'
    if not contract.activation:
        text = 'a feed-forward has an activation: write activation = "gelu" or "gelu_tanh"'
        yield ("activation",), None, text
    for key in ("hidden_factor", "token_norm_epsilon"):
        if getattr(contract, key) <= 0:
            yield (key,), None, f"must be more than 0, not {getattr(contract, key):g}"
    if not contract.square or not contract.stores("W_o"):
        text = "attention is added to its tokens: write square = true, and say where W_o is"
        yield ("square",), None, text
    centred = contract.token_norm == Norm.LAYER
    needed = ("gain_in", "shift_in", "gain_ff", "shift_ff") if centred else ("gain_in", "gain_ff")
    if missing := [name for name in needed if not contract.stores(name)]:
        yield ("parameters",), None, f"no parameter holds {', '.join(missing)}: say where it is"
    if _may_be_narrow(contract):
        text = "a norm of fewer than three numbers leaves only signs: write d_out>=3"
        yield ("size_rules",), None, text
    yield from _check_alone(contract)


def _may_be_narrow(contract: Contract) -> bool:
    """Return whether the contract allows tokens of only one or two numbers."""
    rules = contract.size_rules
    if contract.sizes and {"heads", "head_dim"} <= contract.sizes.keys():
        return contract.sizes["heads"] * contract.sizes["head_dim"] < 3
    if rules is None:
        return True
    tests = {name: rules.get_test(name) for name in ("d_in", "d_out", "heads", "head_dim")}
    return any(
        tests["heads"](heads)
        and tests["head_dim"](width)
        and tests["d_in"](heads * width)
        and tests["d_out"](heads * width)
        for heads, width in ((1, 1), (1, 2), (2, 1))
    )


def _check_alone(contract: Contract) -> Iterator[Problem]:
    """Check that a block has plain attention, the only kind supported so far."""
    others = [name for name in OF_OTHERS if contract.stores(name)]
    others += sorted(list_taken(contract) & {"dropout", "window", "softcap", "kv_heads"})
    others += [c.name.lower() for c in (Capability.CROSS,) if c in contract.capabilities]
    others += ["positions"] * (contract.positions is not Positions.NONE)
    others += ["norm"] * (contract.norm is not Norm.NONE)
    others += ["head_norm"] * (contract.head_norm is not Norm.NONE)
    others += ["feature_map"] * (contract.feature_map is not FeatureMap.NONE)
    others += ["cache"] * (contract.call_form.cache is not None)
    others += ["mask"] * ("mask" in contract.call)
    others += ["returns"] * (contract.returns.name != "OUTPUT")
    if others:
        text = f"a block supports only plain attention so far: leave out {', '.join(others)}"
        yield ("parameters",), None, text


def _enclose(contract: Contract, case: Case) -> Mapping[str, Any]:
    from headcheck.reference import BlockSteps

    norm, activation = contract.token_norm.value, contract.activation.value
    return {"block": BlockSteps(norm, contract.token_norm_epsilon, activation)}


BLOCK = Part(
    name="block",
    is_in=holds("W_1"),
    brings=frozenset({Capability.BLOCK}),
    breaks=frozenset({Capability.BARE}),
    weights=(
        _make_vector("gain_in", 23, 1, LAYERS),
        _make_vector("shift_in", 24, 0, ("gain_in",)),
        _make_vector("gain_ff", 25, 1, LAYERS),
        _make_vector("shift_ff", 26, 0, ("gain_ff",)),
        _make_layer("W_1", 27, _d_hidden, d_in, words="the first layer of the feed-forward"),
        _make_layer("b_1", 28, _d_hidden),
        _make_layer("W_2", 29, d_in, _d_hidden, words="the second layer of the feed-forward"),
        _make_layer("b_2", 30, d_in),
    ),
    keys=("token_norm", "token_norm_epsilon", "activation", "hidden_factor"),
    missing="a block: say where W_1 and W_2 are stored",
    needed={Capability.BLOCK: "a parameter must hold W_1"},
    find_problems=_find_problems,
    make_steps=_enclose,
)
