"""The parts that several contracts share."""

from properties.contract import Argument, Capability
from properties.parameter_mapping import ParameterMapping

C = Capability

D_IN = Argument("d_in", "d_in")
D_OUT = Argument("d_out", "d_out")
HEAD_D_OUT = Argument("d_out", "head_dim")  # the width of one head, where heads are concatenated
CONTEXT_LENGTH = Argument("context_length", "context_length")
DROPOUT = Argument("dropout", "dropout")
NUM_HEADS = Argument("num_heads", "heads")
QKV_BIAS = Argument("qkv_bias", "bias", default=False, optional=True)
BLOCK_SIZE = Argument("block_size", "context_length")
N_HEAD = Argument("n_head", "heads")
N_EMBD = Argument("n_embd", "d_out")

MODULE = frozenset(
    {C.MODULE, C.ATTENTION, C.TOKENS, C.PROJECTED, C.INITIALISED, C.STABLE, C.WIDTHS}
)
"""A class that makes its own weights and attends."""
CAUSAL = frozenset({C.CAUSAL, C.CONTEXT, C.BATCH})
"""... to a batch of sequences, without looking ahead."""
HEADS = frozenset({C.HEADS, C.OUTPUT_PROJECTION, C.OUTPUT_BIAS})
"""... with several heads, mixed by an output layer."""
OPTIONAL_BIAS = frozenset({C.BIAS, C.BIAS_OPTION})
FUNCTION = frozenset({C.STATELESS, C.ATTENTION, C.TOKENS, C.FULL, C.STABLE, C.WIDTHS})
"""A function that attends to every token of one sequence."""


def make_linear_mappings(prefix: str, letter: str) -> tuple[ParameterMapping, ParameterMapping]:
    """Map the weight and the bias of one nn.Linear: that of q, k, v or o."""
    weight = ParameterMapping(f"{prefix}.weight", (f"W_{letter}",))
    return weight, ParameterMapping(f"{prefix}.bias", (f"b_{letter}",))


def make_qkv_mappings(query: str, key: str, value: str) -> tuple[ParameterMapping, ...]:
    """Map three separate nn.Linear."""
    return (
        *make_linear_mappings(query, "q"),
        *make_linear_mappings(key, "k"),
        *make_linear_mappings(value, "v"),
    )


QKV = make_qkv_mappings("W_query", "W_key", "W_value")
QKV_TRANSPOSED = tuple(
    ParameterMapping(f"W_{layer}", (f"W_{layer[0]}",), transposed=True)
    for layer in ("query", "key", "value")
)
"""Plain matrices that tokens are multiplied by from the right."""
OUT_PROJ = make_linear_mappings("out_proj", "o")
FUSED = (
    ParameterMapping("c_attn.weight", ("W_q", "W_k", "W_v")),
    ParameterMapping("c_attn.bias", ("b_q", "b_k", "b_v")),
    *make_linear_mappings("c_proj", "o"),
)
"""Queries, keys and values from one layer, in this order, and the output layer."""
