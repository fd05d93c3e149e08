"""What the functions in a trace do: the one table of their names, and what readers group."""

from enum import Enum


class Action(Enum):
    """What a function does, with the names of the functions that do it; each stands once."""

    KERNEL = (
        "scaled_dot_product_attention multi_head_attention_forward flex_attention "
        "_native_multi_head_attention"
    )
    """computes all of attention: its scores and weights are not seen"""
    LINEAR = "linear"
    PRODUCT = (
        "matmul __matmul__ __rmatmul__ bmm baddbmm mm addmm mv einsum tensordot inner dot bilinear "
        "conv1d"
    )
    """multiplies matrices"""
    LAYOUT = (
        "view reshape transpose permute flatten unflatten swapaxes swapdims movedim moveaxis "
        "squeeze unsqueeze T mT t contiguous view_as reshape_as ravel"
    )
    """only lays out the same numbers"""
    JOIN = "stack cat concat concatenate hstack vstack"
    """lays pieces side by side, which decides what a later layout must be"""
    REPEAT = "repeat tile repeat_interleave"
    MOVE = (
        "chunk split __getitem__ select narrow unbind index_select expand expand_as clone detach "
        "to type type_as float double half dropout dropout_ roll flip __setitem__ written alias "
        "triu tril pad"
    )
    """moves or copies numbers, or sets some to zero"""
    FILL = "masked_fill masked_fill_"
    """hides numbers where a mask is true"""
    CHOICE = "where"
    SUM = "add __add__ __radd__ add_ __iadd__ sub __sub__ __rsub__ rsub sub_ __isub__"
    FACTOR = (
        "mul __mul__ __rmul__ mul_ __imul__ multiply div __truediv__ div_ __itruediv__ true_divide "
        "divide __rtruediv__"
    )
    POWER = "pow __pow__ float_power"
    BASE = "__rpow__ exp2"
    """raises a base, of frequencies or slopes, to powers"""
    EXPONENTIAL = "exp exp_"
    SOFTMAX = "softmax _softmax"
    OTHER_SOFTMAX = "log_softmax _log_softmax gumbel_softmax _safe_softmax"
    """may be where a softmax goes wrong, but its result is not read as weights"""
    REDUCTION = "max amax sum logsumexp"
    """what else a softmax that is written by hand consists of"""
    NORM = "layer_norm rms_norm"
    STATISTIC = "square mean var rsqrt sqrt normalize"
    """what else a norm that is written by hand consists of"""
    ANGLE = "cos sin polar"
    TURN = "neg __neg__ view_as_complex view_as_real complex real imag addcmul"
    """rotates queries and keys, with sums and factors"""
    LOOKUP = "embedding"
    GATE = "sigmoid"
    ACTIVATION = (
        "relu relu_ relu6 gelu silu silu_ leaky_relu elu celu selu mish softplus hardswish tanh glu"
    )
    """stands between the layers of a feed-forward, where a gate may stand, too"""


OPERATIONS = {name: operation for operation in Action for name in operation.value.split()}
PRODUCTS = frozenset({Action.KERNEL, Action.LINEAR, Action.PRODUCT})
MOVES = frozenset({Action.LAYOUT, Action.JOIN, Action.REPEAT, Action.MOVE})
NEUTRAL = MOVES | {Action.FILL, Action.CHOICE}
"""what moves numbers, hides some, or leaves them as they are"""
SOFTMAXES = frozenset({Action.KERNEL, Action.SOFTMAX, Action.EXPONENTIAL})
POWERS = frozenset({Action.POWER, Action.BASE, Action.EXPONENTIAL})
NORMING = frozenset({Action.NORM, Action.POWER, Action.STATISTIC})
ACTIVATIONS = frozenset({Action.ACTIVATION, Action.GATE})
