"""The inputs of worked examples: a few small tokens with round numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import ROTARY, Capability, Contract
from headcheck.properties.contracts.variant import hides_later_tokens
from headcheck.properties.mistakes.evaluation import make_attention_inputs
from headcheck.properties.mistakes.faulty_attention import restate
from headcheck.properties.mistakes.pipeline import AttentionInputs
from headcheck.properties.parts import PARTS
from headcheck.properties.parts.weight import HeadSizes
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters, sliding_window_mask

HEAD_DIM = 4
"""the width of a head; its root is a whole number"""
SIGNS = ((3, 1, 1, 3), (0, 4, 0, 4), (5, 5, 1, 1))
"""tokens of a block: a layer norm turns them into ones and minus ones"""
SUMS = ((1, 0, 2, 0), (0, 3, 0, 1), (4, 0, 0, 2), (0, 1, 1, 0))
"""a matrix for attention and for both layers of a block's feed-forward, which is as wide as tokens
here"""
WINDOW = 2
"""the window, if there is one; it hides one of three tokens"""
BLOCK = 2
"""the number of keys in a block, if there are blocks; the third of three keys has its own block"""
Matrix = Sequence[Sequence[float]]


@dataclass(frozen=True)
class ExampleSetting:
    """A contract, and a case with the sizes of its examples."""

    contract: Contract
    """the contract without its names, so that classes with other names have the same examples"""
    case: Case

    def has(self, capability: Capability) -> bool:
        """Whether the contract has a capability."""
        return self.contract.has(capability)


def set_example(contract: Contract) -> ExampleSetting:
    """Return the setting of the examples for a contract."""
    case = contract.fit(Case(head_dim=HEAD_DIM))
    window = WINDOW if contract.has(Capability.WINDOW) else 0
    block = BLOCK if contract.has(Capability.BLOCKED) else 0
    return ExampleSetting(restate(contract), replace(case, window=window, block=block))


def _tensor(rows: Matrix) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


@dataclass(frozen=True)
class Numbers:
    """Queries, keys and values of a few tokens, in rows; None means the tokens themselves."""

    x: Matrix
    q: Matrix | None = None
    k: Matrix | None = None
    v: Matrix | None = None
    heads: int = 1
    bias: tuple[float, ...] | None = None
    y: Matrix | None = None
    """the tokens of keys and values, if they are not x"""


TWO, THREE = ((1, 0), (0, 1)), ((1, 0, 0), (0, 1, 0), (0, 0, 1))
"""tokens that each select one column of every weight matrix, so that projections can be any numbers
"""
VALUES = ((1, 0, 2, 0), (0, 3, 0, 1), (4, 0, 0, 2))
QUERIES = ((1, 1, 1, 1), (2, 0, 0, 2), (0, 2, 0, 2))
KEYS = ((2, 0, 2, 0), (0, 2, 0, 0), (2, 2, 2, 2))
LOW_QUERIES, LOW_KEYS = ((2, 2, 2, 2), (2, 2, 2, 2)), ((-3, -3, -3, -3), (-2, -2, -2, -2))
"""queries and keys whose scores are far below zero, which reveals fill values that are not low
enough
"""
HIGH_KEYS = ((300, 300, 300, 300), (200, 200, 200, 200))
"""keys whose scores with `LOW_QUERIES` are so large that their exponentials overflow"""
OWN = ((20, 0, 0, 0), (0, 20, 0, 0))
"""queries or keys with which every token attends almost only to itself"""
SQUARE = ((0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 2), (0, 0, 1, 0))
"""a layer as wide as tokens"""
NUMBERED = ((1, 2, 3, 4), (5, 6, 7, 8))
TURNED = ((2, 0, 0, 0), (2, 0, 0, 0))
"""queries or keys in which only the pair that rotates fastest is not zero"""


def list_numbers(setting: ExampleSetting) -> Iterator[Numbers]:
    """Yield the numbers for examples of a mistake, the simplest first."""
    if setting.has(Capability.BLOCK):
        yield from _list_numbers_of_a_block(setting)
        return
    if not setting.has(Capability.PROJECTED):
        yield Numbers(QUERIES[:2])
        yield Numbers(QUERIES)
        if setting.has(Capability.CROSS):
            yield Numbers(QUERIES[:2], y=KEYS)
        return
    if setting.contract.positions in ROTARY and not setting.has(Capability.BESIDE):
        yield Numbers(TWO, TURNED, TURNED, TURNED)
    yield Numbers(TWO, QUERIES[:2], KEYS[:2], VALUES[:2])
    if setting.case.window:  # the last query is close to the first key, which is to be hidden
        yield Numbers(THREE, QUERIES, KEYS[::-1], VALUES)
    yield Numbers(THREE, QUERIES, KEYS, VALUES)
    for times in (1, 10, 100, 1000):
        if times == 100:  # before exponentials underflow, which shows less of what goes wrong
            yield Numbers(TWO, LOW_QUERIES, HIGH_KEYS, VALUES[:2])
        low = tuple(tuple(times * number for number in row) for row in LOW_KEYS)
        yield Numbers(TWO, LOW_QUERIES, low, VALUES[:2])
    yield Numbers(TWO, QUERIES[:2], KEYS[:2], VALUES[:2], bias=(1, 0, 2, 0))
    yield Numbers(QUERIES[:2], SQUARE, SQUARE[::-1], SQUARE)
    yield Numbers(TWO, OWN, OWN, NUMBERED)
    if setting.has(Capability.CROSS):
        yield Numbers(TWO, QUERIES[:2], KEYS[:2], VALUES[:2], y=((3, 1), (1, 2)))
    if setting.has(Capability.HEADS):
        two_heads = tuple((*a, *b) for a, b in zip(QUERIES[:2], KEYS[:2], strict=True))
        other = tuple((*a, *b) for a, b in zip(KEYS[:2], VALUES[:2], strict=True))
        numbered = (tuple(range(1, 9)), tuple(range(9, 17)))
        yield Numbers(TWO, two_heads, other, numbered, heads=2)
        own = tuple(row * 2 for row in OWN)
        yield Numbers(TWO, own, own, numbered, heads=2)


def _list_numbers_of_a_block(setting: ExampleSetting) -> Iterator[Numbers]:
    """Yield numbers whose layers are as wide as tokens, of one head and of several."""
    for tokens in (2, 3):
        yield Numbers(SIGNS[:tokens], SQUARE, SQUARE[::-1], SQUARE)
    yield Numbers(SIGNS[:2], SQUARE, SQUARE[::-1], SQUARE, bias=(1, 0, 2, 0))
    for times in (10, 1000):
        large = tuple(tuple(times * number for number in row) for row in SUMS)
        yield Numbers(SIGNS, large, SUMS, SQUARE)
    if setting.has(Capability.HEADS):
        yield Numbers(SIGNS[:2], SQUARE, SUMS, SUMS, heads=2)


DROPPED_NUMBERS = (
    Numbers(TWO, ((0, 0, 0, 0),) * 2, KEYS[:2], NUMBERED),
    Numbers(TWO, QUERIES[:2], ((2, 0, 2, 0), (1, 1, 0, 4)), NUMBERED),
)
"""inputs for dropout: the first has equal weights, the second has no score of zero"""


def make_inputs(setting: ExampleSetting, numbers: Numbers, *, finishes: bool) -> AttentionInputs:
    """Return the inputs of a pipeline, with an output layer if the example shows its last step."""
    contract, tokens = setting.contract, len(numbers.x)
    case = replace(setting.case, heads=numbers.heads, context_length=tokens)
    keys = tokens if numbers.y is None else len(numbers.y)
    visible = sliding_window_mask(keys, case.window or keys)[keys - tokens :]
    masked = hides_later_tokens(contract, case) or contract.has(Capability.MASK)
    return make_attention_inputs(
        contract,
        case,
        _tensor(numbers.x)[None],
        _make_parameters(setting, numbers, finishes=finishes),
        visible if masked else None,
        () if numbers.y is None else (_tensor(numbers.y)[None],),
    )


def _make_parameters(setting: ExampleSetting, numbers: Numbers, *, finishes: bool) -> Parameters:
    eye = torch.eye(len(numbers.x[0]), dtype=torch.float64)
    w_q, w_k, w_v = (eye if t is None else _tensor(t).mT for t in (numbers.q, numbers.k, numbers.v))
    bias = None if numbers.bias is None else _tensor([numbers.bias])[0]
    made = Parameters(W_q=w_q, W_k=w_k, W_v=w_v, b_q=bias, b_k=bias, b_v=bias)
    heads, width = numbers.heads, len(w_q) // numbers.heads
    sizes = HeadSizes(len(numbers.x[0]), heads, width, heads, rope_dim=setting.case.rope_dim)
    own = {
        weight.name: torch.tensor(weight.make_example(sizes), dtype=torch.float64)
        for part in PARTS
        if part.brings <= setting.contract.capabilities
        for weight in part.weights
        if weight.make_example is not None
    }
    made = replace(made, **own)
    shift = 2 * torch.eye(w_v.shape[0], dtype=torch.float64).roll(1, 0)
    ones = torch.ones(w_v.shape[0], dtype=torch.float64)
    finishes = finishes or setting.has(Capability.BLOCK)
    return replace(made, W_o=shift, b_o=ones) if finishes else made
