"""Pieces that several contracts are made of."""

from properties.contract import Argument, Slot, Trait

T = Trait

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
    {T.MODULE, T.ATTENTION, T.TOKENS, T.PROJECTED, T.INITIALISED, T.STABLE, T.WIDTHS}
)
"""A class that makes its own weights and attends."""
CAUSAL = frozenset({T.CAUSAL, T.CONTEXT, T.BATCH})
"""... to a batch of sequences, without looking ahead."""
HEADS = frozenset({T.HEADS, T.OUTPUT_PROJECTION, T.OUTPUT_BIAS})
"""... with several heads, mixed by an output layer."""
OPTIONAL_BIAS = frozenset({T.BIAS, T.BIAS_OPTION})


def linear(prefix: str, letter: str) -> tuple[Slot, Slot]:
    """The weight and bias of one nn.Linear that makes queries, keys or values."""
    return Slot(f"{prefix}.weight", (f"W_{letter}",)), Slot(f"{prefix}.bias", (f"b_{letter}",))


def linears(query: str, key: str, value: str) -> tuple[Slot, ...]:
    """Three separate nn.Linear."""
    return (*linear(query, "q"), *linear(key, "k"), *linear(value, "v"))


QKV = linears("W_query", "W_key", "W_value")
OUT_PROJ = (Slot("out_proj.weight", ("W_o",)), Slot("out_proj.bias", ("b_o",)))
FUSED = (
    Slot("c_attn.weight", ("W_q", "W_k", "W_v")),
    Slot("c_attn.bias", ("b_q", "b_k", "b_v")),
    Slot("c_proj.weight", ("W_o",)),
    Slot("c_proj.bias", ("b_o",)),
)
"""Queries, keys and values from one layer, in this order; and the output layer."""
