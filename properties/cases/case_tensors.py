"""The tensors of a case: parameters, input and mask, the same on every machine and in every run.

All numbers are drawn in float64 on the CPU by torch's Mersenne Twister, each tensor from its own
stream, and then rounded once to the dtype of the case: the oracle gets exactly the numbers that
the submission gets.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.parts import WEIGHTS, iter_weights
from headcheck.properties.parts.plain import BIASES, PROJECTIONS
from headcheck.properties.sized_cache import SizedCache
from headcheck.properties.terms.case import Case, InputContent, MaskForm, MaskType, MemoryLayout
from headcheck.reference import Parameters

STREAMS = {
    "x": 0,
    "mask": 9,
    "cotangent": 10,
    "x2": 11,
    **{name: weight.stream for name, weight in WEIGHTS.items()},
}
"""the number of each tensor's random stream"""
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
MASK_DTYPES = {
    MaskType.BOOL: torch.bool,
    MaskType.INT: torch.int64,
    MaskType.FLOAT: torch.float32,
}


_MATRICES = SizedCache[Tensor](1 << 24)
"""drawn layers, since all submissions get the same and large ones take long"""
_STORED = WeakKeyDictionary[Parameters, dict[tuple[Contract, Case], dict[str, Tensor]]]()
"""converted parameters, since all submissions get the same"""


def make_generator(case: Case, stream: str) -> torch.Generator:
    """Return the generator of the random numbers of one tensor of one case."""
    return torch.Generator().manual_seed(case.seed * 1000 + STREAMS[stream])


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
    case: Case, contract: Contract, tokens: int, width: int = 0
) -> tuple[Float[Tensor, "batch {tokens} d_in"], ...]:
    """Draw other tokens to attend to: `tokens` tokens for each input except x and the mask.

    They are as wide as x, or have another width.
    """
    inputs = [role for role in contract.call_form.inputs if role != "mask"]
    streams = (replace(case, seed=case.seed + 100 * number) for number in range(1, len(inputs)))
    drawn = (draw_normal(each, "x", case.batch, tokens, width or case.d_in) for each in streams)
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
        # Keys and values that heads share are the first numbers of tokens.
        shared = identity[: case.kv_heads * case.head_dim]
        return Parameters(W_q=identity, W_k=shared, W_v=shared)
    draws, biases = ParameterDraws(case, contract), contract.has_biases(case)
    present = {
        **dict.fromkeys(PROJECTIONS, True),
        **dict.fromkeys(BIASES, biases),
        "W_o": contract.has(Capability.OUTPUT_PROJECTION),
        "b_o": contract.has(Capability.OUTPUT_BIAS),
    }
    # A contract that does not say where parameters are stored has all biases.
    stored = (name for name, is_present in present.items() if is_present)
    names = [n for n in stored if n[0] == "W" or not contract.mappings or contract.stores(n)]
    weights = (*(WEIGHTS[name] for name in names), *iter_weights(contract))
    return Parameters(**{each.name: round_to_dtype(each.draw(draws), case) for each in weights})


@dataclass(frozen=True)
class ParameterDraws:
    """Draws the parameters of a case, each from a stream of its own."""

    case: Case
    contract: Contract

    @property
    def spread(self) -> float:
        """The factor of queries and keys under which scores are as large as the case wants."""
        own = self.contract.scale
        # Compensate for a contract's own scale: the scores are as large as with the usual one.
        larger = 1.0 if own is None else own * math.sqrt(self.case.head_dim)
        return math.sqrt(self.case.sharpness / larger)

    def vector(self, name: str, length: int) -> Tensor:
        """Draw standard normal numbers."""
        return draw_normal(self.case, name, length)

    def matrix(self, name: str, rows: int, columns: int, factor: float = 1.0) -> Tensor:
        """Draw a layer whose results have standard deviation `factor` for normal inputs."""
        drawn = _MATRICES.get_or_make(
            (self.case.seed, STREAMS[name], rows, columns),
            lambda: draw_normal(self.case, name, rows, columns),
            Tensor.numel,
        )
        return drawn * (factor / math.sqrt(columns))


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


def convert_to_stored(contract: Contract, case: Case, parameters: Parameters) -> dict[str, Tensor]:
    """Return parameters as a module of this case stores them; nobody may modify the result."""
    known = _STORED.setdefault(parameters, {})
    if (contract, case) not in known:
        stored, dtype = contract.to_stored(parameters, case), DTYPES[case.dtype]
        known[contract, case] = {path: tensor.to(dtype) for path, tensor in stored}
    return known[contract, case]


def name_gradients(
    contract: Contract, case: Case, x: Tensor | None, stored: Mapping[str, Tensor | None]
) -> dict[str, Tensor | None]:
    """Return gradients of the input and of stored tensors by canonical name; None for no gradient.

    Raises Violation if a gradient's shape differs from its tensor's.
    """
    shapes = contract.get_parameter_shapes(case)
    filled = {
        path: torch.zeros(shapes.get(path, ())) if grad is None else grad
        for path, grad in stored.items()
    }
    missing = {
        name: None
        for mapping in contract.mappings
        for head in range(case.heads)
        if stored.get(mapping.path.format(head=head), mapping) is None
        for name in mapping.holds
    }
    return {"x": x, **contract.to_canonical(filled, case), **missing}
