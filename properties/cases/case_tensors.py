"""The tensors of a case: parameters, input and mask, the same on every machine and in every run.

All numbers are drawn in float64 on the CPU by torch's Mersenne Twister, each tensor from its own
stream, and then rounded once to the dtype of the case: the oracle gets exactly the numbers that
the submission gets.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from headcheck.properties.case import Case, InputContent, MaskForm, MaskType, MemoryLayout
from headcheck.properties.contract import Capability, Contract
from headcheck.reference import Parameters

STREAMS = (
    "x", "W_q", "W_k", "W_v", "b_q", "b_k", "b_v", "W_o", "b_o", "mask", "cotangent", "x2", "sinks",
    "W_gate", "lambdas", "b_gate", "gain_q", "gain_k", "shift_q", "shift_k", "W_down", "W_qr",
    "W_kr", "gain_in", "shift_in", "gain_ff", "shift_ff", "W_1", "b_1", "W_2", "b_2",
)  # fmt: skip
ASKED_BY = {
    "sinks": Capability.SINKS,
    "lambdas": Capability.DIFFERENTIAL,
    "W_gate": Capability.GATED,
}
"""parameters that a capability requires, even if the contract does not say yet where they are
stored
"""
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
HUGE = {"float64": 1000.0, "float32": 1000.0, "bfloat16": 1000.0, "float16": 20.0}
"""The factor of huge tokens: exponentials of their scores overflow, the scores do not."""
SUBNORMAL = {"float64": -1040, "float32": -135, "bfloat16": -130, "float16": -18}
"""The power of two by which a token is multiplied to be subnormal."""
GATE_SPREAD = 2.0
"""the standard deviation of the sigmoid's input in a gate: few gates are closed or fully open"""
HIDDEN_SPREAD = 2.0
"""the factor of a feed-forward's second layer, because the activation halves the spread of its
input
"""
MASK_DTYPES = {
    MaskType.BOOL: torch.bool,
    MaskType.INT: torch.int64,
    MaskType.FLOAT: torch.float32,
}


def make_generator(case: Case, stream: str) -> torch.Generator:
    """Return the generator of the random numbers of one tensor of one case."""
    return torch.Generator().manual_seed(case.seed * 1000 + STREAMS.index(stream))


def draw_normal(case: Case, stream: str, *shape: int) -> Tensor:
    """Draw standard normal numbers in float64."""
    return torch.randn(*shape, generator=make_generator(case, stream), dtype=torch.float64)


def round_to_dtype(tensor: Tensor, case: Case) -> Tensor:
    """Round to the dtype of the case, and return the result in float64."""
    return tensor.to(DTYPES[case.dtype]).to(torch.float64)


def make_tokens(
    case: Case, contract: Contract, stream: str = "x"
) -> Float[Tensor, "batch tokens d_in"]:
    """Draw the input: standard normal tokens, with the special content and layout of the case."""
    x = draw_normal(case, stream, case.batch, case.tokens, case.d_in)
    if not contract.has(Capability.PROJECTED):
        # Scores are then x xᵀ, with standard deviation √d_in.
        x = x * math.sqrt(case.sharpness / math.sqrt(case.d_in))
    _set_content(x, case)
    if case.memory is MemoryLayout.EXPANDED:
        # An expanded batch shares its memory, so its sequences are equal.
        x = x[:1].repeat(case.batch, 1, 1)
    return round_to_dtype(x, case)


def make_other_tokens(
    case: Case, contract: Contract, tokens: int
) -> tuple[Float[Tensor, "batch {tokens} d_in"], ...]:
    """Draw other tokens to attend to: `tokens` tokens for each input except x and the mask."""
    inputs = [role for role in contract.call_form.inputs if role != "mask"]
    streams = (replace(case, seed=case.seed + 100 * number) for number in range(1, len(inputs)))
    drawn = (draw_normal(each, "x", case.batch, tokens, case.d_in) for each in streams)
    return tuple(round_to_dtype(each, case) for each in drawn)


def _set_content(x: Float[Tensor, "batch tokens d_in"], case: Case) -> None:
    middle = case.tokens // 2
    match case.content:
        case InputContent.REPEATED:
            x[:, middle:] = x[:, : case.tokens - middle].clone()
        case InputContent.ZERO:
            x[:, middle] = 0
        case InputContent.OUTLIER:
            x[:, middle] *= 30
        case InputContent.EQUAL:
            x[:] = x[:, :1].clone()
        case InputContent.ALL_ZERO:
            x.zero_()
        case InputContent.SUBNORMAL:
            x[:, middle] *= 2.0 ** SUBNORMAL[case.dtype]
        case InputContent.HUGE:
            x *= HUGE[case.dtype]


def make_parameters(case: Case, contract: Contract) -> Parameters:
    """Draw parameters under which the scaled scores have standard deviation `sharpness`."""
    if not contract.has(Capability.PROJECTED):
        identity = torch.eye(case.d_out, case.d_in, dtype=torch.float64)
        return Parameters(W_q=identity, W_k=identity, W_v=identity)
    # Compensate for a contract's own scale: the scores are as large as with the usual one.
    larger = 1.0 if contract.scale is None else contract.scale * math.sqrt(case.head_dim)
    spread = math.sqrt(case.sharpness / larger)
    d_kv, draw = case.kv_heads * case.head_dim, _ParameterDraws(case, contract)
    read = case.d_latent or case.d_in
    biases, mixes = contract.has_biases(case), contract.has(Capability.OUTPUT_PROJECTION)
    return Parameters(
        W_q=draw.weight("W_q", case.d_out, case.d_in, spread),
        W_k=draw.weight("W_k", d_kv, read, spread),
        W_v=draw.weight("W_v", d_kv, read),
        b_q=draw.bias("b_q", case.d_out, biases),
        b_k=draw.bias("b_k", d_kv, biases),
        b_v=draw.bias("b_v", d_kv, biases),
        W_o=draw.weight("W_o", case.d_out, case.d_out) if mixes else None,
        b_o=draw.bias("b_o", case.d_out, contract.has(Capability.OUTPUT_BIAS)),
        **draw.draw_variant(),
        **draw.draw_latent(spread),
        **draw.draw_block(),
    )


@dataclass(frozen=True)
class _ParameterDraws:
    """Draws the parameters of a case, each from a stream of its own."""

    case: Case
    contract: Contract

    def vector(self, name: str, length: int) -> Tensor:
        return draw_normal(self.case, name, length)

    def weight(self, name: str, rows: int, columns: int, factor: float = 1.0) -> Tensor:
        drawn = draw_normal(self.case, name, rows, columns)
        return round_to_dtype(drawn * (factor / math.sqrt(columns)), self.case)

    def bias(self, name: str, length: int, possible: bool) -> Tensor | None:
        if not possible or (self.contract.mappings and not self.contract.stores(name)):
            return None
        return round_to_dtype(self.vector(name, length) / 2, self.case)

    def gain(self, name: str) -> Tensor:
        drawn = 1 + self.vector(name, self.case.head_dim) / 4
        return drawn * math.sqrt(self.case.sharpness) - self.contract.norm_gain_from

    def draw_variant(self) -> dict[str, Tensor]:
        """Draw all parameters except projections and their biases."""
        case, contract = self.case, self.contract
        gates = case.heads if contract.gates_heads else case.d_out
        draws: dict[str, Callable[[], Tensor]] = {
            "sinks": lambda: self.vector("sinks", case.heads),
            "lambdas": lambda: 0.5 + self.vector("lambdas", case.heads) / 2,
            "W_gate": lambda: self.weight("W_gate", gates, case.d_in, GATE_SPREAD),
            "b_gate": lambda: self.vector("b_gate", gates) / 2,
            "gain_q": lambda: self.gain("gain_q"),
            "gain_k": lambda: self.gain("gain_k"),
            "shift_q": lambda: self.vector("shift_q", case.head_dim) / 2,
            "shift_k": lambda: self.vector("shift_k", case.head_dim) / 2,
        }
        asked = {name: contract.has(each) for name, each in ASKED_BY.items()}
        drawn = (name for name in draws if asked.get(name, contract.stores(name)))
        return {name: round_to_dtype(draws[name](), case) for name in drawn}

    def draw_latent(self, spread: float) -> dict[str, Tensor]:
        """Draw the parameters of latents, and of rotating parts beside heads."""
        case = self.case
        if not self.contract.has(Capability.LATENT):
            return {}
        return {
            "W_down": self.weight("W_down", case.d_latent, case.d_in),
            "W_qr": self.weight("W_qr", case.heads * case.rope_dim, case.d_in, spread),
            "W_kr": self.weight("W_kr", case.rope_dim, case.d_in, spread),
        }

    def draw_block(self) -> dict[str, Tensor]:
        """Draw the parameters of a block's norms and feed-forward."""
        case, hidden = self.case, self.contract.hidden_factor * self.case.d_in
        draws: dict[str, Callable[[], Tensor]] = {
            "gain_in": lambda: 1 + self.vector("gain_in", case.d_in) / 4,
            "shift_in": lambda: self.vector("shift_in", case.d_in) / 4,
            "gain_ff": lambda: 1 + self.vector("gain_ff", case.d_in) / 4,
            "shift_ff": lambda: self.vector("shift_ff", case.d_in) / 4,
            "W_1": lambda: self.weight("W_1", hidden, case.d_in),
            "b_1": lambda: self.vector("b_1", hidden) / 2,
            "W_2": lambda: self.weight("W_2", case.d_in, hidden, HIDDEN_SPREAD),
            "b_2": lambda: self.vector("b_2", case.d_in) / 2,
        }
        drawn = (name for name in draws if self.contract.stores(name))
        return {name: round_to_dtype(draws[name](), case) for name in drawn}


def make_mask(case: Case) -> Shaped[Tensor, "*shape"] | None:
    """Draw the mask as it is passed to `forward`: zero blocks, but never a whole row."""
    if case.mask_form is MaskForm.NONE:
        return None
    b, h, t = case.batch, case.heads, case.tokens
    shape = {
        MaskForm.QUERY_KEY: (t, t),
        MaskForm.ONE_ONE_QUERY_KEY: (1, 1, t, t),
        MaskForm.BATCH_ONE_QUERY_KEY: (b, 1, t, t),
        MaskForm.BATCH_HEAD_QUERY_KEY: (b, h, t, t),
        MaskForm.BATCH_ONE_ONE_KEY: (b, 1, 1, t),
        MaskForm.ONE_HEAD_QUERY_KEY: (1, h, t, t),
    }[case.mask_form]
    draw = torch.rand(shape, generator=make_generator(case, "mask"), dtype=torch.float32)
    keep = draw < 0.6
    # One key of every row stays visible: the result of a fully masked row is not defined.
    keep.scatter_(-1, draw.argmax(-1, keepdim=True), True)
    return keep.to(MASK_DTYPES[case.mask_type])


def narrow_mask(mask: Shaped[Tensor, "*shape"] | None) -> Shaped[Tensor, "*shape"] | None:
    """Return the mask without the row and the column of the last token.

    If a mask is the same for all queries, its axis for queries has length 1 and stays.
    """
    if mask is None:
        return None
    return mask[..., : max(1, mask.shape[-2] - 1), :-1]
